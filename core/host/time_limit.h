// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/units.h"
#include "core/host/log.h"

namespace trainer {

/// When this process must have saved and ended.
class TimeLimit {
 public:
  /// `wall_time` counts from the start of the process. If absent, the limit is that of this process's Slurm
  /// job, if any, and is logged.
  TimeLimit(std::optional<TimeSpan> wall_time, Log& log);

  /// How large a checkpoint is: what is kept for a save until one has been timed.
  void expect_saves_of(int64_t bytes) { save_bytes_ = bytes; }
  /// When a first checkpoint is to be begun, by the clock of steady_seconds: after a tenth of the limit. Then
  /// a run makes progress whatever ends it, and its saves are timed. Nothing without a limit.
  std::optional<double> first_save() const;
  /// Why the run is to stop now, so that a save which takes `save_seconds` (0: none has been timed) still
  /// ends in time; "" while there is more time than that. To be asked between steps: the longest time between
  /// two questions is what the next step may take.
  std::string reason(double save_seconds);
  /// Seconds until it has passed, above 0 also if it has; 0: no limit.
  double seconds_left() const;
  /// What to say of a run that is stopped without having come further: the limit, and what its start, a step
  /// and its saves need. After reason(). "" without a limit, here and below.
  std::string too_short(double save_seconds) const;
  /// What to say of one whose last process was ended before it could save anything new.
  std::string was_too_short() const;

 private:
  double kept(double save_seconds) const;

  std::string name_;  ///< of the limit; "" if there is none
  double seconds_ = 0;
  double began_ = 0;             ///< when they began, by the steady clock
  std::optional<double> asked_;  ///< when, the last time
  double start_seconds_ = 0;     ///< until it was first asked
  double longest_step_ = 0;
  int64_t save_bytes_ = 0;
};

}  // namespace trainer
