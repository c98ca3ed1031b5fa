// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu/winograd/kernels.h"

// What the files of this folder's three instruction sets are made of. All is a template of the set, so that
// no function is compiled for two of them under one name; nothing of the standard library that is a function.

#define TRAINER_INLINE inline __attribute__((always_inline))
#ifdef __clang__
#define TRAINER_UNROLL _Pragma("unroll")
#else
#define TRAINER_UNROLL _Pragma("GCC unroll 36")
#endif

namespace trainer::cpu::winograd {

/// A vector of the channels of a block. An instruction set declares it, since g++ drops the attribute where
/// the size depends on a template's parameter.
template <class Isa>
using Vector = typename Isa::Floats;

template <class Isa>
TRAINER_INLINE Vector<Isa> load(const float* from) {
  Vector<Isa> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class Isa>
TRAINER_INLINE void store(float* to, Vector<Isa> v) {
  std::memcpy(to, &v, sizeof v);
}

/// How a vector lies in memory: as it is.
struct StoredFloat {
  static constexpr Storage kStorage = Storage::f32;
  using Element = float;

  template <class Isa>
  static TRAINER_INLINE Vector<Isa> get(const float* from) {
    return load<Isa>(from);
  }
  template <class Isa>
  static TRAINER_INLINE void put(float* to, Vector<Isa> v) {
    store<Isa>(to, v);
  }
};

/// The upper half of each lane, rounded as BFloat16 rounds: to nearest, ties to even; NaN stays NaN.
struct StoredBFloat16 {
  static constexpr Storage kStorage = Storage::bf16;
  using Element = uint16_t;

  template <class Isa>
  static TRAINER_INLINE Vector<Isa> get(const uint16_t* from) {
    typename Isa::Halves halves;
    std::memcpy(&halves, from, sizeof halves);
    const auto wide = __builtin_convertvector(halves, typename Isa::Words) << 16;
    Vector<Isa> v;
    std::memcpy(&v, &wide, sizeof v);
    return v;
  }
  template <class Isa>
  static TRAINER_INLINE void put(uint16_t* to, Vector<Isa> v) {
    typename Isa::Words wide;
    std::memcpy(&wide, &v, sizeof wide);
    const auto rounded = (wide + 0x7FFFU + (wide >> 16 & 1U)) >> 16, quiet = wide >> 16 | 0x40U;
    const auto is_number = v == v;  // NOLINT(misc-redundant-expression): false of NaN
    const auto halves = __builtin_convertvector(is_number ? rounded : quiet, typename Isa::Halves);
    std::memcpy(to, &halves, sizeof halves);
  }
};

template <int... kLanes>
struct Indices {};
template <int kCount, int... kLanes>
struct CountTo : CountTo<kCount - 1, kCount - 1, kLanes...> {};
template <int... kLanes>
struct CountTo<0, kLanes...> {
  using Type = Indices<kLanes...>;
};

/// Trades the upper halves of p's groups of 2 * kHalf lanes for the lower halves of q's.
template <class Isa, int kHalf, int... kLane>
TRAINER_INLINE void trade(Vector<Isa>& p, Vector<Isa>& q, Indices<kLane...>) {
  constexpr int kLanes = Isa::kLanes;
  const Vector<Isa> low =
      __builtin_shufflevector(p, q, ((kLane & kHalf) == 0 ? kLane : kLanes + kLane - kHalf)...);
  q = __builtin_shufflevector(p, q, ((kLane & kHalf) == 0 ? kLane + kHalf : kLanes + kLane)...);
  p = low;
}

/// Transposes `kLanes` rows, in as many steps as an index has bits.
template <class Isa, int kHalf = 1>
TRAINER_INLINE void transpose(Vector<Isa>* rows) {
  if constexpr (kHalf < Isa::kLanes) {
    TRAINER_UNROLL
    for (int i = 0; i < Isa::kLanes; ++i) {
      if ((i & kHalf) == 0)
        trade<Isa, kHalf>(rows[i], rows[i + kHalf], typename CountTo<Isa::kLanes>::Type{});
    }
    transpose<Isa, 2 * kHalf>(rows);
  }
}

}  // namespace trainer::cpu::winograd
