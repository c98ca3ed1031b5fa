// SPDX-License-Identifier: Apache-2.0
#include "core/search/tpe.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/rng.h"
#include "core/search/draws.h"
#include "core/search/parzen.h"

// Bergstra et al., "Algorithms for hyper-parameter optimization", NeurIPS 2011; Watanabe, "Tree-structured
// Parzen estimator", arXiv:2304.11127. The constants are those of Optuna 5's TPESampler(multivariate=True,
// group=True, constant_liar=True).

namespace trainer {
namespace {

constexpr int64_t kRandomResults = 10;  ///< results without which there is nothing to estimate
constexpr int kCandidates = 24;

/// The settings of some observations that have a group's dimensions. Results have all of them or none, open
/// ones may have some.
std::vector<const Setting*> having(const std::vector<size_t>& group, const std::vector<Observation>& seen,
                                   const std::vector<size_t>& places) {
  std::vector<const Setting*> settings;
  for (const size_t place : places) {
    const Setting& setting = seen[place].setting;
    const auto has = [&setting](size_t dimension) { return setting[dimension].has_value(); };
    if (std::ranges::all_of(group, has)) settings.push_back(&setting);
  }
  return settings;
}

/// Sets the dimensions of a group: of several draws from the density of good settings, the one where that is
/// largest in relation to the density of bad ones. Bergstra et al. prove that it has the largest expected
/// improvement.
void set_group(const Space& space, const std::vector<size_t>& group, const std::vector<Observation>& seen,
               const ObservationSplit& split, RandomStream& stream, Setting& setting) {
  const Parzen good(space, group, having(group, seen, split.good));
  const Parzen bad(space, group, having(group, seen, split.bad));
  Setting candidate(space.size()), best;
  double best_ratio = -std::numeric_limits<double>::infinity();
  for (int i = 0; i < kCandidates; ++i) {
    good.draw(stream, candidate);
    const double ratio = good.log_density(candidate) - bad.log_density(candidate);
    if (i > 0 && !(ratio > best_ratio)) continue;
    best = candidate;
    best_ratio = ratio;
  }
  for (const size_t dimension : group) setting[dimension] = best[dimension];
}

std::vector<std::vector<size_t>> variable_groups(const Space& space, const std::vector<Observation>& seen) {
  std::vector<std::vector<size_t>> groups = dimension_groups(space, seen);
  for (std::vector<size_t>& group : groups) {
    std::erase_if(group, [&](size_t dimension) { return is_single(space[dimension]); });
  }
  std::erase_if(groups, [](const std::vector<size_t>& group) { return group.empty(); });
  return groups;
}

}  // namespace

Setting tpe_setting(const Space& space, const std::vector<Observation>& seen, bool maximize, uint64_t seed,
                    int64_t number) {
  if (std::ranges::count_if(seen, has_result) < kRandomResults) return random_setting(space, seed, number);
  const ObservationSplit split = split_observations(seen, maximize);
  RandomStream stream = numbered_stream(random_key(seed, "tpe"), number);
  Setting setting(space.size());
  for (const std::vector<size_t>& group : variable_groups(space, seen)) {
    set_group(space, group, seen, split, stream, setting);
  }
  // Groups have values whether or not their dimensions exist. Those in no group never had a result; open
  // settings may have them.
  for (size_t i = 0; i < space.size(); ++i) {
    if (!exists(space, setting, i)) {
      setting[i].reset();
    } else if (is_single(space[i])) {
      setting[i] = space[i].kind == Dimension::Kind::choice ? 0 : space[i].low;
    } else if (!setting[i]) {
      set_group(space, {i}, seen, split, stream, setting);
    }
  }
  return setting;
}

}  // namespace trainer
