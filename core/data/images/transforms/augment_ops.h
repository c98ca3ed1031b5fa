// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

#include "core/data/images/image.h"

namespace trainer {

/// One of RandAugment's operations. `magnitude` gives what `apply` takes, from a level of 0 to 30.
struct AugmentOp {
  std::string_view name;
  bool is_signed;  ///< the magnitude is negated half of the time
  double (*magnitude)(int64_t level, int64_t height, int64_t width);
  void (*apply)(Image& image, double magnitude);
};

constexpr int64_t kMostAugmentLevel = 30;

/// After Cubuk et al., "RandAugment" (2020), with torchvision's 14 operations and magnitudes.
const std::array<AugmentOp, 14>& augment_ops();

}  // namespace trainer
