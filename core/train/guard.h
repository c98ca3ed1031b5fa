// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/step/step_report.h"

namespace trainer {

/// A run's reaction to steps with bad numbers.
struct GuardSettings {
  enum class Action { none, skip, roll_back, stop };
  Action nonfinite = Action::stop, spike = Action::none, gradient_spike = Action::none;
  double sigmas = 0;
  int64_t max_skips = 10;  ///< in a row
  int64_t max_rollbacks = 3;
};

/// A guard's state for checkpoints; all else is in the program's persistent tensors.
struct GuardState {
  int64_t rollbacks = 0;
  int64_t overflows = 0;    ///< skipped steps of loss scaling at the last check
  int64_t at_smallest = 0;  ///< of them in a row, those at the smallest scale
  bool operator==(const GuardState&) const = default;
};

/// The decision after a step. `event` is empty if the step was good.
struct GuardDecision {
  enum class What { go_on, roll_back, stop };
  What what = What::go_on;
  std::string event;       ///< for metrics: "skip", "roll_back" or "stop"
  std::string reason;      ///< for metrics: a SkipReason's name, or "loss_scale"
  std::string text;        ///< a sentence for the log or the error
  bool nonfinite = false;  ///< the step's first value that is not finite is worth a search
};

/// Steps from `first` to `last`.
struct StepRange {
  int64_t first = 0, last = 0;
};

/// Turns the report of each step, one after the other, into a decision: continue, roll back or stop. Rolling
/// back is bounded; the caller does it: returns to a checkpoint, calls rolled_back(), and has the steps
/// skipped that led there. A loss or a norm of gradients that is not finite stops the run if neither a
/// guard nor loss scaling has skipped the step.
class Guard {
 public:
  explicit Guard(GuardSettings settings) : settings_(settings) {}

  GuardDecision judge(const StepReport& step);

  /// For saving with a checkpoint, and for restoring when resuming from it.
  const GuardState& state() const { return state_; }
  void restore(const GuardState& saved) { state_ = saved; }

  /// After a return to a checkpoint made after `step` steps: the steps to skip now, all up to the one judged
  /// last. All of them must be skipped, because repeated steps compute bitwise identical results.
  StepRange rolled_back(int64_t step, const GuardState& saved);

 private:
  GuardDecision after_skip(const StepReport& step, GuardSettings::Action action, const std::string& why);
  bool collapsed(const StepReport& step, bool overflowed);

  GuardSettings settings_;
  GuardState state_;
  int64_t last_judged_ = 0;
};

/// Pairs of steps for StepGuards::skip_steps, and room for the ranges that may be added.
std::vector<int32_t> skip_table(std::vector<int64_t> steps, int64_t room);
/// Writes a range into the table's first free row. A full table throws std::logic_error.
void add_range(std::vector<int32_t>& skip_table, StepRange range);

}  // namespace trainer
