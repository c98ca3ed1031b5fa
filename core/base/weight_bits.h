// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "core/base/host_device.h"

namespace trainer {

/// Of weights and activations as whole numbers.
constexpr int64_t kLeastBits = 2, kMostBits = 8;

/// The greatest weight of this many bits: 63 of 7, 127 of 8. The least is its negative.
TRAINER_HD constexpr int64_t greatest_weight(int64_t bits) {
  return (int64_t{1} << (bits - 1)) - 1;
}

/// The least power of two that is not below this scale; 0, infinity and NaN stay.
TRAINER_HD double power_of_two_above(double scale) {
  if (!(scale > 0) || scale - scale != 0) return scale;
  constexpr double kHalf = 0.5;
  int exponent = 0;
  const bool is_power = std::frexp(scale, &exponent) == kHalf;
  return std::ldexp(1.0, is_power ? exponent - 1 : exponent);
}

/// How weights become integers.
struct WeightLevels {
  int64_t bits = kMostBits;
  bool per_tensor = false;    ///< one scale for all of them; else one for each output, dimension 0
  bool power_of_two = false;  ///< scales are rounded up to powers of two, so that nothing is clipped
  bool operator==(const WeightLevels&) const = default;

  /// Of weights up to this magnitude: weight = scale * integer. It maps that to greatest_weight(bits), and is
  /// 0 if all weights are.
  TRAINER_HD float scale_of(float greatest) const {
    const double scale = greatest / static_cast<double>(greatest_weight(bits));
    return static_cast<float>(power_of_two ? power_of_two_above(scale) : scale);
  }
  /// Rounded to nearest, ties to even. NaN stays.
  TRAINER_HD double integer_of(float weight, float scale) const {
    const auto limit = static_cast<double>(greatest_weight(bits));
    const double integer = std::nearbyint(static_cast<double>(weight) / static_cast<double>(scale));
    return integer > limit ? limit : integer < -limit ? -limit : integer;
  }
};

/// Of weights that share a scale: of those that are finite, or NaN if one is.
inline float greatest_magnitude(std::span<const float> weights) {
  float greatest = 0;
  for (const float weight : weights) {
    const float magnitude = std::abs(weight);
    if (std::isnan(magnitude)) return magnitude;
    if (magnitude > greatest && std::isfinite(magnitude)) greatest = magnitude;
  }
  return greatest;
}

/// Writes weights (O, ...) as integers, and the scale of each output: 1 where all weights are zero. The
/// products of scale and integers give the same integers again. A NaN becomes the least one.
inline void quantize_weights(std::span<const float> weights, const WeightLevels& levels,
                             std::span<float> scales, int8_t* integers) {
  const size_t each = weights.size() / scales.size();
  const auto limit = static_cast<double>(greatest_weight(levels.bits));
  for (size_t o = 0; o < scales.size(); ++o) {
    const auto of_output = weights.subspan(o * each, each);
    const bool is_known = levels.per_tensor && o > 0;
    const float found =
        is_known ? scales[0] : levels.scale_of(greatest_magnitude(levels.per_tensor ? weights : of_output));
    scales[o] = found > 0 ? found : 1.0F;
    for (size_t i = 0; i < each; ++i) {
      const double integer = levels.integer_of(of_output[i], scales[o]);
      integers[o * each + i] = static_cast<int8_t>(integer >= -limit ? integer : -limit);
    }
  }
}

}  // namespace trainer
