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

 private:
  std::string name_;  ///< of the limit; "" where there is none
  double seconds_ = 0;
  double began_ = 0;             ///< when they began, by the steady clock
  std::optional<double> asked_;  ///< when, the last time
  double longest_step_ = 0;
};

}  // namespace trainer
