// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/units.h"
#include "core/host/log.h"

namespace trainer {

/// The time by which this process must have saved and ended.
class TimeLimit {
 public:
  /// `wall_time` counts from the start of the process. If absent, the limit is that of this process's Slurm
  /// job, if any, and is logged.
  TimeLimit(std::optional<TimeSpan> wall_time, Log& log);

  /// The size of a checkpoint: determines the reserve for a save until one has been timed.
  void expect_saves_of(int64_t bytes) { save_bytes_ = bytes; }
  /// When to start a first checkpoint, by the clock of steady_seconds: after a tenth of the limit. Then a run
  /// makes progress however it ends, and its saves are timed. Nothing without a limit.
  std::optional<double> first_save() const;
  /// The reason to stop the run now, so that a save of `save_seconds` (0: none has been timed) still ends in
  /// time; "" if there is more time than that. Call it between steps: the longest time between two calls is
  /// the bound for the next step.
  std::string reason(double save_seconds);
  /// Seconds until it has passed, above 0 also if it has; 0: no limit.
  double seconds_left() const;
  /// A message about a run that is stopped without progress: the limit, and the times of its start, a step
  /// and its saves. After reason(). "" without a limit, here and below.
  std::string too_short(double save_seconds) const;
  /// A message about a run with a last process that ended before it could save anything new.
  std::string was_too_short() const;

 private:
  double kept(double save_seconds) const;

  std::string name_;  ///< of the limit; "" if there is none
  double seconds_ = 0;
  double began_ = 0;             ///< when they began, by the steady clock
  std::optional<double> asked_;  ///< time of the last call
  double start_seconds_ = 0;     ///< until the first call
  double longest_step_ = 0;
  int64_t save_bytes_ = 0;
};

}  // namespace trainer
