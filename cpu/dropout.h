// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/graph/ops/dropout.h"
#include "cpu/parallel.h"

namespace trainer::cpu {

constexpr int64_t kDrawnBlocks = 16;  // the number of lanes of the widest vectors
constexpr int64_t kDrawnElements = 4 * kDrawnBlocks;

/// The factors of the elements of `kDrawnBlocks` Philox blocks from this one on, four to a block.
inline __attribute__((always_inline)) void draw_factors(const DropoutSettings& settings, int64_t first_block,
                                                        int32_t sample, int32_t step,
                                                        float (&factors)[kDrawnElements]) {
  alignas(64) uint32_t words[4][kDrawnBlocks];  // word i of block l in words[i][l]
  for (int64_t l = 0; l < kDrawnBlocks; ++l) {
    const Words counter = DropoutSettings::counter(first_block + l, sample, step);
    for (int64_t i = 0; i < 4; ++i) words[i][l] = counter.v[i];
  }
  philox_rounds(settings.key, [&](uint32_t key0, uint32_t key1) {
#pragma omp simd
    for (int64_t l = 0; l < kDrawnBlocks; ++l)
      philox_round(key0, key1, words[0][l], words[1][l], words[2][l], words[3][l]);
  });
  const float kept = settings.kept();
#pragma omp simd
  for (int64_t l = 0; l < kDrawnBlocks; ++l)
    for (int64_t i = 0; i < 4; ++i) factors[4 * l + i] = settings.drops(words[i][l]) ? 0.0f : kept;
}

}  // namespace trainer::cpu
