// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "core/base/units.h"

namespace trainer {

/// When this process must have saved and ended.
class TimeLimit {
 public:
  /// Counted from the start of the process; absent: no limit.
  explicit TimeLimit(std::optional<TimeSpan> wall_time);

  /// Why the run is to stop now, so that a save which takes `save_seconds` still ends in time; "" while there
  /// is more time than that.
  std::string reason(double save_seconds) const;

 private:
  std::optional<TimeSpan> wall_time_;
  double began_ = 0;  ///< when the process started, by the steady clock
};

}  // namespace trainer
