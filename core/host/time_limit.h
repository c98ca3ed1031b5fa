// SPDX-License-Identifier: Apache-2.0
#pragma once

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

  /// Why the run is to stop now, so that a save which takes `save_seconds` still ends in time; "" while there
  /// is more time than that. To be asked between steps: the longest time between two questions is what the
  /// next step may take.
  std::string reason(double save_seconds);
  /// Seconds until it has passed, above 0 also where it has; 0: no limit.
  double seconds_left() const;
  /// What to say of a run that is stopped without having come further: the limit, and what its start, a step
  /// and its saves need. After reason(). "" without a limit, here and below.
  std::string too_short(double save_seconds) const;
  /// What to say of one whose last process was ended before it could save anything new.
  std::string was_too_short() const;

 private:
  double kept(double save_seconds) const;

  std::string name_;  ///< of the limit; "" where there is none
  double seconds_ = 0;
  double began_ = 0;             ///< when they began, by the steady clock
  std::optional<double> asked_;  ///< when, the last time
  double start_seconds_ = 0;     ///< until it was first asked
  double longest_step_ = 0;
};

}  // namespace trainer
