// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "cpu/handler.h"

namespace trainer::cpu {

// Losses and metrics of logits (N, C, H, W) against labels (N, H, W).

inline bool is_per_pixel(const TensorSpec& logits) {
  return logits.shape.size() == 4;
}

/// Pixels processed together: lanes of the vector loops, which run over neighbours of one class.
constexpr int64_t kTilePixels = 256;
using TileFloats = std::array<float, kTilePixels>;

/// A run of pixels of one sample; logit c of pixel i is x[c * stride + i].
struct Tile {
  const float* x;
  int64_t classes, stride, count;
};

/// Each pixel's largest logit (NaN if it has one, so that it reaches the loss) and the sum of exp(x -
/// largest).
void softmax_sums(const Tile& tile, TileFloats& largest, TileFloats& sum);

/// Workspace between the tiles of the two operations that return a sum.
int64_t pixel_workspace_bytes(const Shape& logits);

std::unique_ptr<Kernel> compile_pixel_cross_entropy(const OpContext& context, const Slots& slots);
std::unique_ptr<Kernel> compile_pixel_cross_entropy_backward(const OpContext& context, const Slots& slots);
std::unique_ptr<Kernel> compile_pixel_top_k(const OpContext& context, const Slots& slots);

}  // namespace trainer::cpu
