// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace trainer {

/// The greatest weight of this many bits: 63 of 7, 127 of 8. The least is its negative.
constexpr int64_t greatest_weight(int64_t bits) {
  return (int64_t{1} << (bits - 1)) - 1;
}

/// The weights of one output as integers of that many bits, rounded to nearest, ties to even. Returns their
/// scale: weight = scale * integer. It maps the greatest magnitude to greatest_weight(bits), and is 1 if all
/// weights are zero. The products of scale and integers give the same integers again.
inline float quantize_weights(std::span<const float> weights, int64_t bits, int8_t* integers) {
  const auto limit = static_cast<double>(greatest_weight(bits));
  float greatest = 0;
  for (const float weight : weights) greatest = std::max(greatest, std::abs(weight));
  const auto quotient = static_cast<float>(greatest / limit);
  const float scale = quotient > 0 ? quotient : 1.0F;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double integer = std::nearbyint(static_cast<double>(weights[i]) / static_cast<double>(scale));
    integers[i] = static_cast<int8_t>(integer >= -limit ? std::min(integer, limit) : -limit);
  }
  return scale;
}

}  // namespace trainer
