// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/weight_bits.h"

namespace trainer {

/// The least scale whose inverse is a float: ranges that shrink towards zero end as empty ones.
constexpr double kLeastScale = 1.1754943508222875e-38;

/// The scale and the level of zero with which a range becomes whole numbers from 0 on. A scale of 0: there
/// are only zeros. It is not finite if the range is not.
struct RangeScale {
  double scale = 0;
  int64_t zero_point = 0;
};

/// How activations become whole numbers.
struct ActivationLevels {
  int64_t bits = kMostBits;
  bool power_of_two = false;  ///< scales are rounded up to powers of two
  bool operator==(const ActivationLevels&) const = default;

  TRAINER_HD int64_t greatest() const { return (int64_t{1} << bits) - 1; }
  /// If the range has no negative numbers, zero is level 0; else it is the middle, and the range is made
  /// symmetric. Zero is exact in both.
  TRAINER_HD RangeScale of_range(double low, double high) const {
    const bool has_signs = low < 0;
    const double magnitude = has_signs && -low > high ? -low : high;
    const auto levels = static_cast<double>(has_signs ? greatest_weight(bits) : greatest());
    const double scale = magnitude / levels + (low - low);  // NaN stays
    if (scale < kLeastScale) return {};
    return {power_of_two ? power_of_two_above(scale) : scale, has_signs ? int64_t{1} << (bits - 1) : 0};
  }
};

/// Rounds numbers to levels, as products in 8 bits do.
struct LevelRounding {
  float scale, inverse, zero, most;

  TRAINER_HD LevelRounding(const RangeScale& range, const ActivationLevels& levels)
      : scale(static_cast<float>(range.scale)),
        inverse(range.scale == 0 ? 0.0f : static_cast<float>(1 / range.scale)),
        zero(static_cast<float>(range.zero_point)),
        most(static_cast<float>(levels.greatest())) {}

  /// The nearest level, ties to even, as the number that it stands for. Infinities saturate, NaN stays.
  TRAINER_HD float operator()(float x) const {
    if (scale == 0.0f) return x;
    const float level = x * inverse + zero;
    // Adding 3 * 2^22 leaves no bits for a fraction.
    constexpr float kRounds = 12582912.0f;
    const float clipped = level < 0.0f ? 0.0f : level > most ? most : level;
    return (((clipped + kRounds) - kRounds) - zero) * scale;
  }
};

}  // namespace trainer
