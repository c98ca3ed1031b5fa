// SPDX-License-Identifier: Apache-2.0
#include "core/search/space.h"

#include <algorithm>
#include <cmath>

#include "core/base/rng.h"
#include "core/search/draws.h"

namespace trainer {
namespace {

bool is_within(const Dimension& dimension, double value) {
  if (dimension.kind == Dimension::Kind::real) return value >= dimension.low && value <= dimension.high;
  if (value != std::floor(value)) return false;
  if (dimension.kind == Dimension::Kind::integer) return value >= dimension.low && value <= dimension.high;
  return value >= 0 && value < static_cast<double>(dimension.choices);
}

/// The value at the part `u` of the range, 0 <= u < 1. A whole number has the logarithms of the interval
/// that rounds to it.
double value_at(const Dimension& dimension, double u) {
  if (dimension.kind == Dimension::Kind::choice)
    return std::floor(u * static_cast<double>(dimension.choices));
  const bool whole = dimension.kind == Dimension::Kind::integer;
  const double half = whole ? 0.5 : 0, low = dimension.low - half, high = dimension.high + half;
  double value = low + u * (high - low);
  if (dimension.logarithmic) value = std::exp(std::log(low) + u * (std::log(high) - std::log(low)));
  if (whole) value = std::floor(value + 0.5);
  return std::clamp(value, dimension.low, dimension.high);
}

}  // namespace

bool exists(const Space& space, const Setting& so_far, size_t dimension) {
  return std::ranges::all_of(space[dimension].conditions, [&](const Dimension::Condition& condition) {
    const std::optional<double> chosen = so_far[condition.dimension];
    return chosen && std::ranges::count(condition.choices, static_cast<int64_t>(*chosen)) > 0;
  });
}

bool contains(const Space& space, const Setting& setting) {
  if (setting.size() != space.size()) return false;
  for (size_t i = 0; i < space.size(); ++i) {
    if (exists(space, setting, i) != setting[i].has_value()) return false;
    if (setting[i] && !is_within(space[i], *setting[i])) return false;
  }
  return true;
}

bool is_single(const Dimension& dimension) {
  return dimension.kind == Dimension::Kind::choice ? dimension.choices == 1 : dimension.low == dimension.high;
}

Setting random_setting(const Space& space, uint64_t seed, int64_t number) {
  Setting setting(space.size());
  for (size_t i = 0; i < space.size(); ++i) {
    if (!exists(space, setting, i)) continue;
    RandomStream stream = numbered_stream(random_key(seed, space[i].name), number);
    setting[i] = value_at(space[i], next_uniform53(stream));
  }
  return setting;
}

}  // namespace trainer
