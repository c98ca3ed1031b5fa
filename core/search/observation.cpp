// SPDX-License-Identifier: Apache-2.0
#include "core/search/observation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainer {
namespace {

using State = Observation::State;

/// Whether a is better than b; both have results.
bool is_better(const Observation& a, const Observation& b, bool maximize) {
  if (a.state != b.state) return a.state == State::finished;
  if (a.state == State::dropped && a.rung != b.rung) return a.rung > b.rung;
  const auto loss = [maximize](double value) {
    if (std::isnan(value)) return std::numeric_limits<double>::infinity();
    return maximize ? -value : value;
  };
  return loss(a.value) < loss(b.value);
}

bool occur_together(const std::vector<Observation>& seen, size_t a, size_t b) {
  return std::ranges::all_of(seen, [a, b](const Observation& observation) {
    return !has_result(observation) ||
           observation.setting[a].has_value() == observation.setting[b].has_value();
  });
}

}  // namespace

bool has_result(const Observation& observation) {
  return observation.state == State::dropped ||
         (observation.state == State::finished && !std::isnan(observation.value));
}

ObservationSplit split_observations(const std::vector<Observation>& seen, bool maximize) {
  ObservationSplit split;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (has_result(seen[i])) split.good.push_back(i);
    if (seen[i].state == State::open) split.bad.push_back(i);
  }
  // Of equal ones the earlier is better.
  std::ranges::stable_sort(split.good,
                           [&](size_t a, size_t b) { return is_better(seen[a], seen[b], maximize); });
  const auto tenth = static_cast<size_t>(std::ceil(0.1 * static_cast<double>(split.good.size())));
  const auto border = split.good.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(tenth, 25));
  split.bad.insert(split.bad.end(), border, split.good.end());
  split.good.erase(border, split.good.end());
  std::ranges::sort(split.good);
  std::ranges::sort(split.bad);
  return split;
}

std::vector<std::vector<size_t>> dimension_groups(const Space& space, const std::vector<Observation>& seen) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < space.size(); ++i) {
    const bool occurs = std::ranges::any_of(
        seen, [i](const Observation& one) { return has_result(one) && one.setting[i].has_value(); });
    if (!occurs) continue;
    const auto group = std::ranges::find_if(groups, [&](const std::vector<size_t>& dimensions) {
      return occur_together(seen, dimensions.front(), i);
    });
    if (group == groups.end()) {
      groups.push_back({i});
    } else {
      group->push_back(i);
    }
  }
  return groups;
}

}  // namespace trainer
