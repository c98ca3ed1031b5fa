// SPDX-License-Identifier: Apache-2.0
#include "core/host/time_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/host/process.h"
#include "core/host/slurm.h"

namespace trainer {
namespace {

/// The least reserve for a save and the end of the process, as part of the limit and in seconds.
constexpr double kShare = 0.1, kLeastSeconds = 10;
constexpr double kSaves = 3;  ///< a save may take this many times as long as the longest so far

/// Bytes per second of a save without a measurement: a disk, or a link of one gigabit, shared with others. A
/// checkpoint is written, synchronised and read back.
constexpr double kCautiousRate = 50e6;
/// The largest part of the limit for such a guess: the run should reach its first checkpoint, after a tenth,
/// and have it timed.
constexpr double kMostGuessed = 0.5, kFirstSave = 0.1;

}  // namespace

TimeLimit::TimeLimit(std::optional<TimeSpan> wall_time, Log& log) {
  if (wall_time) {
    name_ = fmt::format("run.max_wall_time of {}", to_string(*wall_time));
    began_ = steady_seconds() - seconds_since_process_start();
  } else if ((wall_time = slurm_time_left(log))) {
    name_ = "the time of the Slurm job";
    began_ = steady_seconds();
  } else {
    return;
  }
  seconds_ = static_cast<double>(wall_time->seconds);
}

std::string TimeLimit::reason(double save_seconds) {
  if (name_.empty()) return "";
  const double time = steady_seconds();
  if (asked_) {
    longest_step_ = std::max(longest_step_, time - *asked_);
  } else {
    start_seconds_ = time - began_;
  }
  asked_ = time;
  if (time - began_ + kept(save_seconds) < seconds_) return "";
  return name_ + " is nearly over";
}

std::optional<double> TimeLimit::first_save() const {
  if (name_.empty()) return std::nullopt;
  return began_ + kFirstSave * seconds_;
}

double TimeLimit::kept(double save_seconds) const {
  const double guessed =
      std::min(static_cast<double>(save_bytes_) / kCautiousRate * kSaves, kMostGuessed * seconds_);
  const double saves = save_seconds > 0 ? kSaves * save_seconds : guessed;
  return std::min(kShare * seconds_, kLeastSeconds) + saves + longest_step_;
}

std::string TimeLimit::too_short(double save_seconds) const {
  if (name_.empty()) return "";
  return fmt::format(
      "{} left no time to come further: the start took {:.1f} s and {:.1f} s are kept for a save; "
      "set run.max_wall_time (or the job's limit) to at least {:.0f}s",
      name_, start_seconds_, kept(save_seconds),
      std::ceil(2 * (start_seconds_ + kept(save_seconds) + longest_step_)));
}

std::string TimeLimit::was_too_short() const {
  if (name_.empty()) return "";
  return fmt::format(
      "the last process started from this step too, and was ended before it could save: if {} ended "
      "it, set run.max_wall_time (or the job's limit) to at least {:.0f}s",
      name_, std::ceil(2 * seconds_));
}

double TimeLimit::seconds_left() const {
  if (name_.empty()) return 0;
  constexpr double kAtOnce = 0.001;
  return std::max(kAtOnce, seconds_ - (steady_seconds() - began_));
}

}  // namespace trainer
