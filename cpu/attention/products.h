// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/attention/kernels.h"
#include "cpu/vectors.h"

namespace trainer::cpu::attention {

/// kRows x kVectors sums in registers: a vector of b is loaded once for all rows, and an element of a goes to
/// all lanes.
template <class Isa, int kRows, int kVectors>
void multiply_strip(Scalars a, Rows b, int64_t depth, bool add, Sums c) {
  using V = Vector<Isa>;
  constexpr int kLanes = Isa::kLanes;
  V sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k, a.data += a.step, b.data += b.row) {
    V with[kVectors];
    TRAINER_UNROLL
    for (int i = 0; i < kVectors; ++i) with[i] = load<Isa>(b.data + i * kLanes);
    TRAINER_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float value = a.data[r * a.row];
      TRAINER_UNROLL
      for (int i = 0; i < kVectors; ++i) sums[r][i] = Isa::multiply_add(value, with[i], sums[r][i]);
    }
  }
  TRAINER_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TRAINER_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      float* to = c.data + r * c.row + i * kLanes;
      store<Isa>(to, add ? load<Isa>(to) + sums[r][i] : sums[r][i]);
    }
  }
}

using MultiplyStrip = void (*)(Scalars, Rows, int64_t, bool, Sums);

/// The functions for 1, 2, ... rows; with one vector twice as many rows fit into the registers.
template <class Isa, int kVectors, class Counts = typename CountTo<2 * Isa::kStrip / kVectors>::Type>
struct Strips;
template <class Isa, int kVectors, int... kNumber>
struct Strips<Isa, kVectors, Indices<kNumber...>> {
  static constexpr MultiplyStrip kOfCount[] = {multiply_strip<Isa, kNumber + 1, kVectors>...};
};

/// Rows are split into strips of nearly equal size.
template <class Isa, int kVectors>
TRAINER_INLINE void multiply_rows(Scalars a, int64_t rows, Rows b, int64_t depth, bool add, Sums c) {
  constexpr int64_t kMost = 2 * Isa::kStrip / kVectors;
  const int64_t strips = (rows + kMost - 1) / kMost;
  for (int64_t s = 0; s < strips; ++s) {
    const int64_t begin = rows * s / strips, end = rows * (s + 1) / strips;
    Strips<Isa, kVectors>::kOfCount[end - begin - 1]({a.data + begin * a.row, a.row, a.step}, b, depth, add,
                                                     {c.data + begin * c.row, c.row});
  }
}

template <class Isa>
void multiply(Scalars a, int64_t rows, Rows b, int64_t vectors, int64_t depth, bool add, Sums c) {
  for (int64_t v = 0; v < vectors; v += 2) {
    const Rows with{b.data + v * Isa::kLanes, b.row};
    const Sums to{c.data + v * Isa::kLanes, c.row};
    if (vectors - v == 1) {
      multiply_rows<Isa, 1>(a, rows, with, depth, add, to);
    } else {
      multiply_rows<Isa, 2>(a, rows, with, depth, add, to);
    }
  }
}

}  // namespace trainer::cpu::attention
