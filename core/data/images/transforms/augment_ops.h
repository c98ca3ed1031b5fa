// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "core/data/images/image.h"

namespace trainer {

/// A level of strength out of `count`: 0 is the weakest, count - 1 the strongest.
struct AugmentLevel {
  int64_t level, count;
};

/// One of the operations that AutoAugment, RandAugment and TrivialAugment draw. `magnitude` is the argument
/// of `apply` in the first two, `wide_magnitude` in TrivialAugment's wide variant.
struct AugmentOp {
  using Magnitude = double (*)(AugmentLevel at, int64_t height, int64_t width);

  std::string_view name;  ///< torchvision's
  bool is_signed;         ///< the magnitude is negated half of the time
  Magnitude magnitude, wide_magnitude;
  void (*apply)(Image& image, double magnitude);
};

/// Places in `augment_ops`.
enum class AugmentKind {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize,
  invert,
};

constexpr int64_t kRandAugmentLevels = 31;
constexpr int64_t kDrawnAugmentOps =
    14;  ///< RandAugment and TrivialAugment draw from the first 14: all but invert

/// Uses the operations and magnitudes of torchvision, for tensors of bytes.
const std::array<AugmentOp, 15>& augment_ops();

inline const AugmentOp& augment_op(AugmentKind kind) {
  return augment_ops()[static_cast<size_t>(kind)];
}

}  // namespace trainer
