// SPDX-License-Identifier: Apache-2.0
#include "core/search/importance.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "core/search/value_density.h"

// Watanabe, Bansal, Hutter, "PED-ANOVA: efficiently quantifying hyperparameter importance in arbitrary
// subspaces", IJCAI 2023, for conditional dimensions as in "Conditional PED-ANOVA", arXiv:2601.20800. The
// constants are those of Optuna 5's PedAnovaImportanceEvaluator().

namespace trainer {
namespace {

using Settings = std::vector<const Setting*>;

std::vector<double> values_of(size_t place, const Settings& settings) {
  std::vector<double> values;
  for (const Setting* setting : settings) values.push_back((*setting)[place].value());
  return values;
}

/// Pearson's divergence of the densities of the best settings and of all.
double divergence(const Dimension& dimension, size_t place, const Settings& best, const Settings& all) {
  const std::vector<double> p = density_of_values(dimension, values_of(place, best));
  const std::vector<double> q = density_of_values(dimension, values_of(place, all));
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += q[i] * (p[i] / q[i] - 1) * (p[i] / q[i] - 1);
  return sum;
}

Settings having_value(size_t place, const Settings& settings) {
  Settings found;
  std::ranges::copy_if(settings, std::back_inserter(found),
                       [place](const Setting* setting) { return (*setting)[place].has_value(); });
  return found;
}

/// Without a factor that all dimensions share. Conditional PED-ANOVA: the divergence among the settings that
/// have the dimension, times the square of their share of the best, divided by their share of all.
double importance(const Space& space, size_t place, const Settings& best, const Settings& all) {
  const Settings best_having = having_value(place, best), all_having = having_value(place, all);
  if (is_single(space[place]) || best_having.empty()) return 0;
  const double of_best = static_cast<double>(best_having.size()) / static_cast<double>(best.size());
  const double of_all = static_cast<double>(all_having.size()) / static_cast<double>(all.size());
  return of_best * of_best / of_all * divergence(space[place], place, best_having, all_having);
}

/// The best tenth of some finished observations, with all that equal the last of them.
Settings best_tenth(const std::vector<const Observation*>& finished, bool maximize) {
  std::vector<double> losses;
  for (const Observation* one : finished) losses.push_back(maximize ? -one->value : one->value);
  std::vector<double> sorted = losses;
  std::ranges::sort(sorted);
  const double limit = sorted[static_cast<size_t>(std::ceil(0.1 * static_cast<double>(sorted.size()))) - 1];
  Settings best;
  for (size_t i = 0; i < finished.size(); ++i) {
    if (losses[i] <= limit) best.push_back(&finished[i]->setting);
  }
  return best;
}

}  // namespace

std::vector<double> importances(const Space& space, const std::vector<Observation>& seen, bool maximize) {
  std::vector<const Observation*> finished;
  Settings all;
  for (const Observation& one : seen) {
    if (one.state != Observation::State::finished || !std::isfinite(one.value)) continue;
    finished.push_back(&one);
    all.push_back(&one.setting);
  }
  if (finished.size() < 2) return {};
  const Settings best = best_tenth(finished, maximize);
  std::vector<double> result(space.size()), occurring(space.size());
  for (size_t i = 0; i < space.size(); ++i) {
    result[i] = importance(space, i, best, all);
    occurring[i] = having_value(i, all).empty() ? 0 : 1;
  }
  if (std::ranges::all_of(result, [](double one) { return one == 0; })) result = occurring;
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& one : result) one /= sum > 0 ? sum : 1;
  return result;
}

}  // namespace trainer
