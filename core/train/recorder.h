// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/host/log.h"
#include "core/host/progress.h"
#include "core/metrics/metrics_sinks.h"
#include "core/optim/guard.h"
#include "core/run/status.h"
#include "core/train/device_watch.h"
#include "core/train/step_runner.h"
#include "core/train/unreadable_list.h"

namespace trainer {

/// Lengths and cadences of a run, in steps.
struct LoopSettings {
  int64_t steps = 0;
  int64_t epochs = 0;  ///< 0 where the run's length is given in batches
  int64_t samples_per_epoch = 0;
  int64_t global_batch_size = 0;
  int64_t micro_batches = 1;
  int64_t validation_interval = 0;  ///< 0: only at the end
  int64_t logging_interval = 50;
  int64_t data_workers = 0;  ///< for advice
  int64_t validation_samples = 0;
  std::vector<std::string> metrics;  ///< outputs of `evaluate` beside the loss
  bool scales_loss = false;          ///< steps whose gradients are not finite are skipped, and counted
  bool knows_norm = false;           ///< the update puts out "grad_norm"
  GuardSettings guard;
  bool averages = false;  ///< averaged weights are evaluated too, as `ema_loss`, `ema_top1`, …
};

/// What lines of the validation split hold beside the loss.
std::vector<std::string> validation_metrics(const LoopSettings& settings);

/// What a run has come to, tensors left out: with them all that it needs to go on as if it had never stopped.
struct LoopState {
  int64_t step = 0, updates = 0;     ///< done so far
  int64_t validated = 0;             ///< the step of the last evaluation
  int64_t interval_steps = 0;        ///< since the last line of metrics, those skipped left out
  double interval_loss = 0;          ///< their sum
  double train_loss = 0;             ///< mean of the last interval
  std::optional<double> loss_scale;  ///< where there is one
  GuardState guard;
  std::map<std::string, double> last, best;  ///< loss and metrics of the validation split
  bool operator==(const LoopState&) const = default;
};

/// What is measured of a run while this process works on it.
struct LoopResult {
  double training_seconds = 0;     ///< without evaluation
  double first_step_seconds = 0;   ///< from the process's start to the end of its first update
  double joules_per_sample = 0;    ///< 0 where the device does not tell
  double device_memory_bytes = 0;  ///< the most in use, by whomever; 0 where it does not tell
  std::string throttling;          ///< in words; empty where the device was not slowed down
};

/// Where results go while they come in.
struct LoopOutput {
  MetricsSinks& metrics;
  Progress& progress;
  Log& log;
  UnreadableList& unreadable;
  StatusKeeper* status = nullptr;
  Trace* trace = nullptr;  ///< where a few steps are to be followed
};

/// Keeps count of what the steps come to, and tells it: metrics, progress, log.
class Recorder {
 public:
  Recorder(Backend& backend, LoopSettings settings, LoopOutput output);

  /// Goes on from there.
  void start(const LoopState& state);
  /// The time of the next step begins now.
  void resume_clock();
  /// The step that `runner` has taken last.
  void add(const StepResult& result, const StepRunner& runner);
  /// What its guard said of it, and has come to.
  void add_decision(const GuardDecision& decision, const StepOutcome& step, const GuardState& guard);
  /// The run is where it was then, with the guard's present state: what was recorded since is dropped.
  void go_back(const LoopState& state, const GuardDecision& decision, const GuardState& guard);
  void add_evaluation(const std::map<std::string, double>& means);
  LoopResult finish();

  const LoopState& state() const { return state_; }
  /// Whether the metric was never better than in the last evaluation.
  bool is_best(const std::string& metric) const;

 private:
  /// Measured since the last line of metrics.
  struct Interval {
    int64_t steps = 0, timed_steps = 0;
    double seconds = 0, data_wait = 0, host = 0;
    PhaseSeconds phases;
  };

  void show(double loss);
  void write_interval(const StepRunner& runner);
  void warn_if_input_bound();
  double epoch() const;

  Backend& backend_;
  LoopSettings settings_;
  LoopOutput out_;
  LoopState state_;
  LoopResult result_;
  Interval interval_;
  DeviceWatch watch_;
  int64_t first_step_ = 1;  ///< of this process
  bool warned_ = false;     ///< that data comes too slowly
  double since_ = 0;        ///< when the time of the next step began
};

}  // namespace trainer
