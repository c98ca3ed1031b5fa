// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/train/device_watch.h"
#include "core/train/evaluation.h"
#include "core/train/log.h"
#include "core/train/metrics.h"
#include "core/train/progress.h"
#include "core/train/step_runner.h"
#include "core/train/trace.h"
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
  bool averages = false;             ///< averaged weights are evaluated too, as `ema_loss`, `ema_top1`, …
};

/// What a run has come to.
struct LoopResult {
  std::map<std::string, double> last, best;  ///< loss and metrics of the validation split
  double training_seconds = 0;               ///< without evaluation
  double first_step_seconds = 0;             ///< from the process's start to the end of the first update
  double train_loss = 0;                     ///< mean of the last interval
  double joules_per_sample = 0;              ///< 0 where the device does not tell
  double device_memory_bytes = 0;            ///< the most in use, by whomever; 0 where it does not tell
  std::string throttling;                    ///< in words; empty where the device was not slowed down
};

/// Where results go while they come in.
struct LoopOutput {
  MetricsWriter& metrics;
  Progress& progress;
  Log& log;
  UnreadableList& unreadable;
  Trace* trace = nullptr;  ///< where a few steps are to be followed
};

/// Batches through the executable's entry points, until the steps are done. On a device that works later the
/// results of a step come some steps after it. Throws Error (exit 70) when the loss is no longer finite.
class TrainingLoop {
 public:
  TrainingLoop(Executable& executable, DataPipeline& train, DataPipeline* validation, LoopSettings settings,
               LoopOutput output);

  LoopResult run();

 private:
  /// Sums since the last line of metrics.
  struct Interval {
    int64_t steps = 0, timed_steps = 0;
    double loss = 0, seconds = 0, data_wait = 0, host = 0;
    PhaseSeconds phases;
  };

  void put(int64_t step);
  void follow(int64_t step);
  void collect(bool all);
  void finish_step(const StepResult& result);
  void show(int64_t step, double loss);
  void write_interval(int64_t step);
  void warn_if_input_bound();
  void evaluate(int64_t step);
  double epoch_of(int64_t step) const;

  Executable& executable_;
  LoopSettings settings_;
  LoopOutput out_;
  StepRunner runner_;
  std::optional<Evaluation> validation_;
  bool following_ = false;  ///< this step goes into the trace
  bool warned_ = false;     ///< that data comes too slowly
  double since_ = 0;        ///< when the time of the next step began
  Interval interval_;
  DeviceWatch watch_;
  LoopResult result_;
};

/// Bytes of this process in memory: now, and at most so far.
int64_t resident_bytes();
int64_t peak_resident_bytes();

}  // namespace trainer
