// SPDX-License-Identifier: Apache-2.0
#include "core/train/early_stop.h"

#include <fmt/format.h>

#include <cmath>

namespace trainer {

EarlyStopState after_evaluation(const EarlyStopSettings& settings, Direction direction, EarlyStopState state,
                                int64_t step, double value) {
  if (state.metric != settings.metric) state = {.metric = settings.metric};
  const double gain = direction == Direction::smaller ? state.best - value : value - state.best;
  if (std::isfinite(value) && (state.best_step == 0 || gain > settings.min_delta)) {
    state.best = value;
    state.best_step = step;
    state.bad = 0;
  } else {
    ++state.bad;
  }
  return state;
}

std::string early_stop_text(const EarlyStopSettings& settings, const EarlyStopState& state) {
  std::string text = fmt::format("validation {} has not improved", state.metric);
  if (settings.min_delta > 0) text += fmt::format(" by more than {}", settings.min_delta);
  text += fmt::format(" in {} evaluation{}", state.bad, state.bad == 1 ? "" : "s");
  if (state.best_step == 0) return text + "; it was never finite";
  return text + fmt::format("; its best was {:.4f} at step {}", state.best, state.best_step);
}

}  // namespace trainer
