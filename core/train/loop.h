// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/data/pipeline.h"
#include "core/engine/executable.h"
#include "core/train/log.h"
#include "core/train/metrics.h"
#include "core/train/progress.h"
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
};

/// Where results go while they come in.
struct LoopOutput {
  MetricsWriter& metrics;
  Progress& progress;
  Log& log;
  UnreadableList& unreadable;
  Trace* trace = nullptr;  ///< where a few steps are to be followed
};

/// Batches through the executable's entry points, until the steps are done. Throws Error (exit 70) when the
/// loss is no longer finite.
class TrainingLoop {
 public:
  TrainingLoop(Executable& executable, DataPipeline& train, DataPipeline* validation, LoopSettings settings,
               LoopOutput output);

  LoopResult run();

 private:
  /// Sums since the last line of metrics.
  struct Interval {
    int64_t steps = 0;
    double loss = 0, seconds = 0, data_wait = 0;
    PhaseSeconds phases;
  };

  double step();
  void follow(int64_t step);
  double run_micro_batch(size_t entry, const Batch& batch);
  void bind(const Batch& batch);
  void finish_step(int64_t step, double loss, double seconds);
  void show(int64_t step, double loss);
  void write_interval(int64_t step);
  void evaluate(int64_t step);
  std::map<std::string, double> evaluation_means();
  void add_evaluation(size_t entry, const std::string& prefix, std::map<std::string, double>& sums);
  double epoch_of(int64_t step) const;

  Executable& executable_;
  DataPipeline& train_;
  DataPipeline* validation_;
  LoopSettings settings_;
  LoopOutput out_;
  size_t first_ = 0, next_ = 0, update_ = 0, evaluate_ = 0, evaluate_averages_ = 0;  ///< entry points
  TensorId images_, labels_, weights_, sample_index_, other_labels_, shares_;  ///< the last two may be kNone
  bool following_ = false;  ///< this step goes into the trace
  Interval interval_;
  LoopResult result_;
};

/// Bytes of this process in memory: now, and at most so far.
int64_t resident_bytes();
int64_t peak_resident_bytes();

}  // namespace trainer
