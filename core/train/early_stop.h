// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/tasks/metric.h"

namespace trainer {

/// When a run ends before its last step.
struct EarlyStopSettings {
  std::string metric;
  int64_t patience = 3;  ///< evaluations in a row without improvement
  double min_delta = 0;  ///< an improvement is larger
};

/// The state of early stopping. Checkpoints hold it.
struct EarlyStopState {
  std::string metric;     ///< that the other members are about
  double best = 0;        ///< the last improvement
  int64_t best_step = 0;  ///< 0: none has been finite
  int64_t bad = 0;        ///< evaluations in a row without improvement
  bool operator==(const EarlyStopState&) const = default;

  bool stops(const EarlyStopSettings& settings) const { return bad >= settings.patience; }
};

/// The state after the evaluation of a step; that of another metric starts again. A non-finite value is not
/// an improvement.
EarlyStopState after_evaluation(const EarlyStopSettings& settings, Direction direction, EarlyStopState state,
                                int64_t step, double value);

/// "validation loss has not improved in 3 evaluations; its best was 0.5 at step 20"
std::string early_stop_text(const EarlyStopSettings& settings, const EarlyStopState& state);

}  // namespace trainer
