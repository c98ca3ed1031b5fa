// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/handler.h"

namespace trainer::cpu {

// Losses and metrics of logits (N, C, H, W) against labels (N, H, W).

inline bool is_per_pixel(const TensorSpec& logits) {
  return logits.shape.size() == 4;
}

/// What the two that give a sum need between their tiles.
int64_t pixel_workspace_bytes(const Shape& logits);

std::unique_ptr<Kernel> compile_pixel_cross_entropy(const OpContext& context, const Slots& slots);
std::unique_ptr<Kernel> compile_pixel_cross_entropy_backward(const OpContext& context, const Slots& slots);
std::unique_ptr<Kernel> compile_pixel_top_k(const OpContext& context, const Slots& slots);

}  // namespace trainer::cpu
