// SPDX-License-Identifier: Apache-2.0
#include "core/engine/slowest_rank.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace trainer {

/// The integral of 1 - F^n over the positive numbers, less that of F^n over the negative ones.
double expected_largest_normal(int64_t ranks) {
  constexpr double kMost = 12, kStep = 1e-3;  // of a million draws the largest is below 5
  const auto below = [&](double x) {
    return std::pow(0.5 * std::erfc(-x / std::numbers::sqrt2), static_cast<double>(ranks));
  };
  double sum = 0;
  for (double x = kStep / 2; x < kMost; x += kStep) sum += (1 - below(x) - below(-x)) * kStep;
  return sum;
}

double expected_largest(std::span<const double> numbers, int64_t ranks) {
  std::vector<double> sorted(numbers.begin(), numbers.end());
  std::ranges::sort(sorted);
  const auto n = static_cast<double>(sorted.size());
  // The i-th smallest is the largest of all draws with this probability.
  double sum = 0, before = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double up_to = std::pow(static_cast<double>(i + 1) / n, static_cast<double>(ranks));
    sum += sorted[i] * (up_to - before);
    before = up_to;
  }
  return sum;
}

}  // namespace trainer
