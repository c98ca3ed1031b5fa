// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/rng.h"

namespace trainer::cpu {

constexpr int64_t kDrawnBlocks = 16;  // the number of lanes of the widest vectors
constexpr int64_t kDrawnElements = 4 * kDrawnBlocks;

/// `kDrawnBlocks` blocks of Philox from this one on; word i of block l in words[i][l].
inline __attribute__((always_inline)) void draw_words(uint64_t key, int64_t first_block, int32_t sample,
                                                      int32_t step, uint32_t (&words)[4][kDrawnBlocks]) {
  for (int64_t l = 0; l < kDrawnBlocks; ++l) {
    const Words counter = element_counter(first_block + l, sample, step);
    for (int64_t i = 0; i < 4; ++i) words[i][l] = counter.v[i];
  }
  philox_rounds(key, [&](uint32_t key0, uint32_t key1) {
#pragma omp simd
    for (int64_t l = 0; l < kDrawnBlocks; ++l)
      philox_round(key0, key1, words[0][l], words[1][l], words[2][l], words[3][l]);
  });
}

}  // namespace trainer::cpu
