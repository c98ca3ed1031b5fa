// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/optim/guard.h"
#include "core/train/checkpointer.h"
#include "core/train/evaluation.h"
#include "core/train/recorder.h"
#include "core/train/step_runner.h"
#include "core/train/trace.h"

namespace trainer {

/// Batches through the executable's entry points, until the steps are done or the run is to stop. On a device
/// that works later the results of a step come some steps after it. Goes back to a checkpoint where the guard
/// says so, and throws Error (exit 70) where it says stop.
class TrainingLoop {
 public:
  /// A reason to save and stop, or "": asked several times a second.
  using StopReason = std::function<std::string()>;

  TrainingLoop(
      Executable& executable, DataPipeline& train, DataPipeline* validation, const LoopSettings& settings,
      LoopOutput output, Checkpointer* checkpoints = nullptr,
      StopReason stop_reason = [] { return std::string(); });

  /// Goes on from `state`, whose tensors the executable has. Returns why it stopped: "" where all steps are
  /// done. Either way what it has come to is saved.
  std::string run(const LoopState& state);

  const LoopState& state() const { return recorder_.state(); }
  LoopResult result() { return recorder_.finish(); }

 private:
  bool train();
  void enqueue(int64_t step);
  void follow(int64_t step);
  void collect(bool all);
  void judge(const StepReport& step);
  void roll_back();
  bool is_validation_due(int64_t step) const;
  bool evaluate();
  bool must_stop();

  Executable& executable_;
  LoopSettings settings_;
  LoopOutput out_;
  StepRunner runner_;
  Recorder recorder_;
  Guard guard_;
  std::optional<Evaluation> validation_;
  Checkpointer* checkpoints_;
  StopReason stop_reason_;
  std::string stopped_for_;
  bool following_ = false;                   ///< this step goes into the trace
  bool searched_ = false;                    ///< for a value that is not finite
  std::optional<GuardDecision> going_back_;  ///< the guard said so, and it is still to be done
};

}  // namespace trainer
