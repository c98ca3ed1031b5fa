// SPDX-License-Identifier: Apache-2.0
#include "core/search/draws.h"

#include <cmath>
#include <numbers>

namespace trainer {

/// Rejection: at least 0.34 of the draws are accepted, those within one deviation on one side of the mean.
/// A hundred refusals have a probability below 1e-18.
double next_truncated_normal(RandomStream& stream, double mean, double deviation, double low, double high) {
  for (int i = 0; i < 100; ++i) {
    // Box and Muller's transform
    const double radius = std::sqrt(-2 * std::log(1 - next_uniform53(stream)));
    const double angle = 2 * std::numbers::pi * next_uniform53(stream);
    const double value = mean + deviation * radius * std::cos(angle);
    if (value >= low && value <= high) return value;
  }
  return mean;
}

}  // namespace trainer
