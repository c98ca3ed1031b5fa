// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/graph/ops/dropout.h"
#include "cpu/drawn_words.h"

namespace trainer::cpu {

/// The factors of the elements of `kDrawnBlocks` Philox blocks from this one on, four to a block.
inline __attribute__((always_inline)) void draw_factors(const DropoutSettings& settings, int64_t first_block,
                                                        int32_t sample, int32_t step,
                                                        float (&factors)[kDrawnElements]) {
  alignas(64) uint32_t words[4][kDrawnBlocks];
  draw_words(settings.key, first_block, sample, step, words);
  const float kept = settings.kept();
#pragma omp simd
  for (int64_t l = 0; l < kDrawnBlocks; ++l)
    for (int64_t i = 0; i < 4; ++i) factors[4 * l + i] = settings.drops(words[i][l]) ? 0.0f : kept;
}

}  // namespace trainer::cpu
