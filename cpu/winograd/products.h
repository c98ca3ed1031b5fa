// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/winograd/kernels.h"
#include "cpu/winograd/vectors.h"

namespace trainer::cpu::winograd {

/// kTiles x kVectors sums in registers: a vector of weights is loaded once for all the tiles, and an element
/// of v goes to all lanes.
template <class Isa, int kTiles, int kVectors>
void multiply_strip(const float* v, int64_t v_stride, int64_t blocks, const float* u, bool add, float* m,
                    int64_t m_stride) {
  using V = Vector<Isa>;
  constexpr int kLanes = Isa::kLanes;
  V sums[kTiles][kVectors] = {};
  for (int64_t block = 0; block < blocks; ++block, v += v_stride) {
    TRAINER_UNROLL
    for (int lane = 0; lane < kLanes; ++lane, u += kVectors * kLanes) {
      V weights[kVectors];
      TRAINER_UNROLL
      for (int i = 0; i < kVectors; ++i) weights[i] = load<Isa>(u + i * kLanes);
      TRAINER_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        const float value = v[t * kLanes + lane];
        TRAINER_UNROLL
        for (int i = 0; i < kVectors; ++i) sums[t][i] = Isa::multiply_add(value, weights[i], sums[t][i]);
      }
    }
  }
  TRAINER_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    TRAINER_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      float* to = m + i * m_stride + t * kLanes;
      store<Isa>(to, add ? load<Isa>(to) + sums[t][i] : sums[t][i]);
    }
  }
}

using MultiplyStrip = void (*)(const float*, int64_t, int64_t, const float*, bool, float*, int64_t);

/// The functions for 1, 2, ... tiles.
template <class Isa, int kVectors, class Counts = typename CountTo<Isa::kStrip>::Type>
struct Strips;
template <class Isa, int kVectors, int... kNumber>
struct Strips<Isa, kVectors, Indices<kNumber...>> {
  static constexpr MultiplyStrip kOfCount[] = {multiply_strip<Isa, kNumber + 1, kVectors>...};
};

/// Tiles are split into strips of nearly equal size.
template <class Isa>
void multiply(const float* v, int64_t v_stride, int64_t tiles, int64_t blocks, const float* u,
              int64_t vectors, bool add, float* m, int64_t m_stride) {
  const MultiplyStrip* of_count = vectors == 2 ? Strips<Isa, 2>::kOfCount : Strips<Isa, 1>::kOfCount;
  const int64_t strips = (tiles + Isa::kStrip - 1) / Isa::kStrip;
  for (int64_t s = 0; s < strips; ++s) {
    const int64_t begin = tiles * s / strips, end = tiles * (s + 1) / strips;
    of_count[end - begin - 1](v + begin * Isa::kLanes, v_stride, blocks, u, add, m + begin * Isa::kLanes,
                              m_stride);
  }
}

/// kInputs x kVectors sums over the tiles in registers.
template <class Isa, int kInputs, int kVectors>
void accumulate_block(const float* v, const float* g, int64_t g_stride, int64_t tiles, bool add, float* m,
                      int64_t m_row) {
  using V = Vector<Isa>;
  constexpr int kLanes = Isa::kLanes;
  V sums[kInputs][kVectors] = {};
  for (int64_t t = 0; t < tiles; ++t, v += kLanes, g += kLanes) {
    V gradients[kVectors];
    TRAINER_UNROLL
    for (int i = 0; i < kVectors; ++i) gradients[i] = load<Isa>(g + i * g_stride);
    TRAINER_UNROLL
    for (int in = 0; in < kInputs; ++in) {
      const float value = v[in];
      TRAINER_UNROLL
      for (int i = 0; i < kVectors; ++i) sums[in][i] = Isa::multiply_add(value, gradients[i], sums[in][i]);
    }
  }
  TRAINER_UNROLL
  for (int in = 0; in < kInputs; ++in) {
    TRAINER_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      float* to = m + in * m_row + i * kLanes;
      store<Isa>(to, add ? load<Isa>(to) + sums[in][i] : sums[in][i]);
    }
  }
}

template <class Isa>
void accumulate(const float* v, const float* g, int64_t g_stride, int64_t tiles, int64_t vectors, bool add,
                float* m, int64_t m_row) {
  for (int in = 0; in < Isa::kLanes; in += Isa::kInputs) {
    float* to = m + in * m_row;
    if (vectors == 3) accumulate_block<Isa, Isa::kInputs, 3>(v + in, g, g_stride, tiles, add, to, m_row);
    if (vectors == 2) accumulate_block<Isa, Isa::kInputs, 2>(v + in, g, g_stride, tiles, add, to, m_row);
    if (vectors == 1) accumulate_block<Isa, Isa::kInputs, 1>(v + in, g, g_stride, tiles, add, to, m_row);
  }
}

}  // namespace trainer::cpu::winograd
