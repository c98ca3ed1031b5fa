// SPDX-License-Identifier: Apache-2.0
#include "core/train/time_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/train/process.h"

namespace trainer {
namespace {

/// What a save and the end of the process may take at least, as part of the limit and in seconds.
constexpr double kShare = 0.1, kLeastSeconds = 10;
constexpr double kSaves = 3;  ///< a save may take this many times as long as the longest so far

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

TimeLimit::TimeLimit(std::optional<TimeSpan> wall_time)
    : wall_time_(wall_time), began_(now() - seconds_since_process_start()) {}

std::string TimeLimit::reason(double save_seconds) const {
  if (!wall_time_) return "";
  const auto all = static_cast<double>(wall_time_->seconds);
  const double kept = std::min(kShare * all, kLeastSeconds) + kSaves * save_seconds;
  if (now() - began_ + kept < all) return "";
  return fmt::format("run.max_wall_time of {} is nearly over", to_string(*wall_time_));
}

}  // namespace trainer
