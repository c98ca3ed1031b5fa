// SPDX-License-Identifier: Apache-2.0
#include "core/search/grid.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace trainer {
namespace {

using Values = std::vector<double>;

double grid_value(const Dimension& dimension, int64_t point, int64_t points) {
  if (points > 1 && point == points - 1) return dimension.high;  // exactly
  const double part = points == 1 ? 0.5 : static_cast<double>(point) / static_cast<double>(points - 1);
  double value = dimension.low + part * (dimension.high - dimension.low);
  if (dimension.logarithmic) value = std::pow(dimension.low, 1 - part) * std::pow(dimension.high, part);
  if (dimension.kind == Dimension::Kind::integer) value = std::round(value);
  return std::clamp(value, dimension.low, dimension.high);
}

/// Of more choices than a grid may have settings, enough to be too many.
Values grid_values(const Dimension& dimension, int64_t points) {
  Values values;
  const bool is_choice = dimension.kind == Dimension::Kind::choice;
  // A number of points beyond the number of integers gives each of them; so does the number itself.
  if (dimension.kind == Dimension::Kind::integer && !dimension.logarithmic) {
    points = std::min(points, static_cast<int64_t>(dimension.high - dimension.low) + 1);
  }
  const int64_t count = is_choice ? dimension.choices : points;
  for (int64_t i = 0; i < std::min(count, kMaxGrid + 1); ++i) {
    const double value = is_choice ? static_cast<double>(i) : grid_value(dimension, i, points);
    if (values.empty() || value != values.back()) values.push_back(value);
  }
  return values;
}

std::vector<Values> all_grid_values(const Space& space, const std::vector<int64_t>& points) {
  std::vector<Values> values;
  for (size_t i = 0; i < space.size(); ++i) values.push_back(grid_values(space[i], points[i]));
  return values;
}

/// How many settings begin with the first `i` values of `so_far`, times `factor`; above kMaxGrid any number
/// that is. Only choices that others depend on are enumerated.
int64_t count_from(const Space& space, const std::vector<Values>& values, size_t i, int64_t factor,
                   Setting& so_far) {
  if (factor > kMaxGrid || i == space.size()) return factor;
  if (!exists(space, so_far, i)) return count_from(space, values, i + 1, factor, so_far);
  const bool decides = std::ranges::any_of(space, [i](const Dimension& dimension) {
    return std::ranges::count(dimension.conditions, i, &Dimension::Condition::dimension) > 0;
  });
  if (!decides) {
    return count_from(space, values, i + 1, factor * static_cast<int64_t>(values[i].size()), so_far);
  }
  int64_t count = 0;
  for (size_t k = 0; k < values[i].size() && count <= kMaxGrid; ++k) {
    so_far[i] = values[i][k];
    count += count_from(space, values, i + 1, factor, so_far);
  }
  so_far[i].reset();
  return count;
}

void append_from(const Space& space, const std::vector<Values>& values, size_t i, Setting& so_far,
                 std::vector<Setting>& settings) {
  if (i == space.size()) {
    settings.push_back(so_far);
  } else if (!exists(space, so_far, i)) {
    append_from(space, values, i + 1, so_far, settings);
  } else {
    for (const double value : values[i]) {
      so_far[i] = value;
      append_from(space, values, i + 1, so_far, settings);
    }
    so_far[i].reset();
  }
}

}  // namespace

std::optional<int64_t> grid_size(const Space& space, const std::vector<int64_t>& points) {
  Setting so_far(space.size());
  const int64_t count = count_from(space, all_grid_values(space, points), 0, 1, so_far);
  return count > kMaxGrid ? std::nullopt : std::optional(count);
}

std::vector<Setting> grid_settings(const Space& space, const std::vector<int64_t>& points) {
  const std::optional<int64_t> size = grid_size(space, points);
  if (!size) throw std::length_error("a grid of too many settings");
  std::vector<Setting> settings;
  settings.reserve(static_cast<size_t>(*size));
  Setting so_far(space.size());
  append_from(space, all_grid_values(space, points), 0, so_far, settings);
  return settings;
}

}  // namespace trainer
