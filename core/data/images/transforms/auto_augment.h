// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

#include "core/data/images/transforms/augment_ops.h"

namespace trainer {

/// An operation that happens with probability p, at one of kAutoAugmentLevels strengths.
struct AutoAugmentStep {
  AugmentKind op;
  double p;
  int64_t level = 0;  ///< meaningless for operations without a strength
};

constexpr int64_t kAutoAugmentLevels = 10;
using AutoAugmentPair = std::array<AutoAugmentStep, 2>;
using AutoAugmentPolicy = std::array<AutoAugmentPair, 25>;

/// The policies of Cubuk et al., "AutoAugment: learning augmentation strategies from data" (2019).
struct NamedAutoAugmentPolicy {
  std::string_view name;
  const AutoAugmentPolicy& pairs;
};
const std::array<NamedAutoAugmentPolicy, 3>& auto_augment_policies();

}  // namespace trainer
