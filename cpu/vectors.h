// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

// Building blocks of loops that are compiled once for each instruction set. Each is a template of the set, so
// that no function is compiled for two of them under one name. No functions of the standard library are used.

#define TRAINER_INLINE inline __attribute__((always_inline))
#ifdef __clang__
#define TRAINER_UNROLL _Pragma("unroll")
#else
#define TRAINER_UNROLL _Pragma("GCC unroll 36")
#endif

namespace trainer::cpu {

/// A vector of floats. An instruction set declares it, since g++ drops the attribute if
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

/// Transposes `kLanes` rows, in one step per bit of an index.
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

}  // namespace trainer::cpu
