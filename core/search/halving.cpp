// SPDX-License-Identifier: Apache-2.0
#include "core/search/halving.h"

#include <algorithm>
#include <cmath>

// Jamieson, Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS
// 2016; Li et al., "A system for massively parallel hyperparameter tuning", MLSys 2020 (ASHA). A setting is
// compared with those before it only, so that the decision does not depend on the time at which others
// arrive.

namespace trainer {

std::vector<int64_t> rungs(int64_t first, int64_t factor, int64_t end) {
  std::vector<int64_t> steps;
  for (int64_t step = first; step < end; step *= factor) {
    steps.push_back(step);
    if (step > end / factor) break;  // the next one may not fit into 64 bits
  }
  return steps;
}

bool goes_on(std::span<const double> values, int64_t factor, bool maximize) {
  const double own = values.back();
  if (std::isnan(own)) return false;
  const auto counted = std::ranges::count_if(values, [](double value) { return !std::isnan(value); });
  const auto better = std::ranges::count_if(
      values, [own, maximize](double value) { return maximize ? value > own : value < own; });
  return better < std::max<int64_t>(1, counted / factor);
}

}  // namespace trainer
