// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/train/checkpointer.h"
#include "core/train/evaluation.h"
#include "core/train/guard.h"
#include "core/train/mask_updates.h"
#include "core/train/recorder.h"
#include "core/train/step_runner.h"
#include "core/train/trace.h"

namespace trainer {

/// How a loop ended; its state is saved.
struct LoopEnd {
  enum class What {
    done,     ///< all steps, or an early stop
    paused,   ///< at LoopSettings::pause_after
    stopped,  ///< by a signal, a limit of time, or another rank
  };
  What what = What::done;
  std::string reason = "";  ///< of a stop
};

/// Trains until the steps are done or the run should stop. On an asynchronous device each step is judged a
/// fixed number of steps after it was enqueued (StepRunner::lag). It is judged earlier if nothing should be
/// in flight: before an evaluation, a save and the end. Rolls back to a checkpoint, or throws Error (exit
/// 70), if the guard decides so. Information of this process alone goes through the agreement of the ranks.
class TrainingLoop {
 public:
  /// This process's reason to save and stop, or "": called several times a second.
  using StopReason = std::function<std::string()>;

  TrainingLoop(
      Executable& executable, ProcessGroup& group, DataPipeline& train, DataPipeline* validation,
      const LoopSettings& settings, LoopOutput output, Checkpointer* checkpoints = nullptr,
      StopReason stop_reason = [] { return std::string(); });
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  /// Continues from `state`; the executable has its tensors.
  LoopEnd run(const LoopState& state);

  const LoopState& state() const { return recorder_.state(); }
  /// Ends the run's clock.
  LoopResult result();

 private:
  LoopEnd::What train();
  void enqueue(int64_t step);
  void follow(int64_t step);
  void collect(int64_t left);
  void judge(const StepReport& step);
  void roll_back();
  bool is_validation_due(int64_t step) const;
  bool is_validation_wanted(int64_t step) const;
  bool is_decisive(int64_t step) const;
  bool is_pause_due(int64_t step) const;
  bool is_verification_due(int64_t step) const;
  void verify(int64_t step);
  void save_now(Activity doing);
  bool evaluate();
  void set_learning_rate_factor();
  void prune(double TimeShares::*part);
  Vote wish();
  bool leaves_now() const { return agreement_.leaves_now(); }
  template <class Work>
  void attempt(const Work& work);

  Executable& executable_;
  LoopSettings settings_;
  LoopOutput out_;
  Agreement agreement_;
  StepRunner runner_;
  Recorder recorder_;
  Guard guard_;
  std::optional<Evaluation> validation_;
  std::optional<MaskUpdates> masks_;
  Checkpointer* checkpoints_;
  StopReason stop_reason_;
  std::string stopped_for_;
  Vote decided_;                             ///< by the ranks, and still to be done
  bool following_ = false;                   ///< this step goes into the trace
  bool searched_ = false;                    ///< for a value that is not finite
  std::optional<GuardDecision> going_back_;  ///< the guard decided it, and it is still to be done
};

}  // namespace trainer
