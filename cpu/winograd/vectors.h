// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu/vectors.h"
#include "cpu/winograd/kernels.h"

namespace trainer::cpu::winograd {

/// A vector in memory, unchanged.
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

}  // namespace trainer::cpu::winograd
