// SPDX-License-Identifier: Apache-2.0
#include "core/train/plateau.h"

#include <algorithm>
#include <cmath>

namespace trainer {
namespace {

bool improves(const PlateauSettings& settings, Direction direction, const std::optional<double>& best,
              double value) {
  if (std::isnan(value)) return false;
  if (!best) return std::isfinite(value);
  const bool smaller = direction == Direction::smaller;
  const double threshold = smaller ? -settings.threshold : settings.threshold;
  const double limit = settings.absolute ? *best + threshold : *best * (1 + threshold);
  return smaller ? value < limit : value > limit;
}

}  // namespace

PlateauState after_evaluation(const PlateauSettings& settings, Direction direction, PlateauState state,
                              double value) {
  if (state.metric != settings.metric) state = {.metric = settings.metric, .factor = state.factor};
  if (improves(settings, direction, state.best, value)) {
    state.best = value;
    state.bad = 0;
  } else {
    ++state.bad;
  }
  if (state.cooldown > 0) {
    --state.cooldown;
    state.bad = 0;
  }
  if (state.bad <= settings.patience) return state;
  state.factor = std::min(state.factor, std::max(state.factor * settings.factor, settings.min_factor));
  state.cooldown = settings.cooldown;
  state.bad = 0;
  return state;
}

}  // namespace trainer
