// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/host/stop.h"
#include "core/recipe/recipe.h"
#include "core/session/device.h"

namespace trainer {

/// Training steps of a recipe, as they were measured in this process.
struct StepSpeed {
  int64_t micro_batch = 0;
  int64_t samples = 0;  ///< of a step
  int64_t steps = 0;    ///< that were timed
  double seconds = 0;   ///< of a step, the median
  int64_t planned_bytes = 0, peak_bytes = 0;
  std::optional<double> joules;       ///< of a sample
  bool has_batch_statistics = false;  ///< the micro-batch then affects results
};

/// Several measurements of the same steps: medians, and the highest peak.
StepSpeed median_speed(const std::vector<StepSpeed>& measured);

/// The micro-batch to use: the smallest whose steps take at most 5 % longer than the fastest. `speeds` is not
/// empty.
int64_t smallest_fast(const std::vector<StepSpeed>& speeds);

/// Trains for at least `seconds` on the recipe's samples, after a few steps that do not count, and copies the
/// state as a save does. Nothing is written. Throws Error as a run does; exit 75 when asked to stop.
StepSpeed measure_steps(const std::shared_ptr<const Recipe>& recipe, double seconds,
                        const OpenDevice& open_device, const StopSignals& signals, Log& log);

}  // namespace trainer
