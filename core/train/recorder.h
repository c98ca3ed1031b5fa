// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/host/log.h"
#include "core/host/progress.h"
#include "core/metrics/metrics_sinks.h"
#include "core/train/device_watch.h"
#include "core/train/evaluation.h"
#include "core/train/loop_settings.h"
#include "core/train/loop_state.h"
#include "core/train/rank_times.h"
#include "core/train/step_runner.h"
#include "core/train/time_shares.h"
#include "core/train/unreadable_list.h"

namespace trainer {

/// Measurements of a run while this process works on it.
struct LoopResult {
  double training_seconds = 0;     ///< without evaluation
  double first_step_seconds = 0;   ///< from the process's start to the end of its first update
  double joules_per_sample = 0;    ///< 0 if the device does not report it
  double device_memory_bytes = 0;  ///< the most in use, by any process; 0 if the device does not report it
  std::string throttling;          ///< in words; empty if the device was not slowed down
  TimeShares time;                 ///< of this process, since it was started
  TimeFacts facts;                 ///< about that, as far as the loop knows them
};

/// Where results are written.
struct LoopOutput {
  MetricsSinks& metrics;
  Progress& progress;
  Log& log;
  UnreadableList& unreadable;
  std::function<void(int64_t step)> on_step;  ///< called after each step; may be empty
  Trace* trace = nullptr;                     ///< if a few steps should be traced
  std::function<void(int64_t step, const Evaluation&)> on_evaluation = {};  ///< may be empty
};

/// Accumulates the results of steps and reports them: metrics, progress, log.
class Recorder {
 public:
  Recorder(const Executable& executable, ProcessGroup& group, LoopSettings settings, LoopOutput output);

  /// Goes on from there.
  void start(const LoopState& state);
  /// The time since the last step was spent on `part`; that of the next step begins now.
  void resume_clock(double TimeShares::*part);
  void add(const StepResult& result);
  /// The guard's decision about the step added last, and its state.
  void add_decision(const GuardDecision& decision, const StepReport& step, const GuardState& guard);
  /// Returns to `state`, but keeps the guard's present state. Later records are dropped.
  void go_back(const LoopState& state, const GuardDecision& decision, const GuardState& guard);
  /// One that the recipe does not ask for is recorded, but decides nothing.
  void add_evaluation(const std::map<std::string, double>& values, bool decides);
  /// After this step all ranks had the same weights.
  void set_verified(int64_t step) { state_.verified = step; }
  /// Whether the evaluations so far end the run.
  bool stops_early() const;
  /// Reports this, and writes what has been recorded since the last line.
  void stop_early();
  /// The share of the weights to be pruned that is taken out from here on.
  void note_pruned(double share);
  /// See UnreadableList::share.
  void share_unreadable(ProcessGroup& group);
  LoopResult finish();

  const LoopState& state() const { return state_; }

 private:
  /// Measured since the last line of metrics.
  struct Interval {
    int64_t steps = 0, timed_steps = 0;
    double seconds = 0, data_wait = 0, host = 0, waited = 0;
    PhaseSeconds phases;
  };

  std::optional<int64_t> skipped(const StepReport& step) const;
  void note_unreadable();
  void show(double loss);
  void note_device(MetricsRecord& record);
  void note_ranks(MetricsRecord& record);
  TimeShares time() const;
  bool follow_best(const std::map<std::string, double>& values);
  void follow_metrics(const std::map<std::string, double>& values);
  void write_interval(const StepReport& step);
  void warn_if_input_bound();
  double epoch() const;
  std::string validation_line(const std::map<std::string, double>& values);

  const Executable& executable_;
  ProcessGroup& group_;
  LoopSettings settings_;
  LoopOutput out_;
  LoopState state_;
  LoopResult result_;
  Interval interval_;
  StepReport last_;  ///< step
  DeviceWatch watch_;
  TimeShares time_;               ///< so far; what steps took is all in `computing`
  TimeShares told_;               ///< in lines of metrics
  double told_joules_ = 0;        ///< likewise
  double judged_ = 0;             ///< seconds of computing until the last line
  double stolen_share_ = 0;       ///< of the device's last reading that has one
  std::optional<double> pruned_;  ///< share of the weights; nothing if none are to be pruned
  RankSums ranks_;
  int64_t first_step_ = 1;                ///< of this process
  int64_t uncounted_skips_ = 0;           ///< before that, under guards that the program no longer has
  std::map<std::string, size_t> widths_;  ///< of the metrics in lines so far, so that these align
  bool warned_ = false;                   ///< data comes too slowly
  double since_ = 0;                      ///< when the time of the next step began
  double waited_before_ = 0;              ///< for other ranks, until then
  double data_waited_before_ = 0;         ///< for data, until then
};

}  // namespace trainer
