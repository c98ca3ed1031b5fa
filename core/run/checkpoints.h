// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/units.h"
#include "core/engine/state_image.h"
#include "core/host/log.h"
#include "core/run/checkpoint_files.h"
#include "core/run/checkpoint_rotation.h"
#include "core/run/resume.h"
#include "core/run/run_state.h"
#include "core/train/checkpointer.h"
#include "core/train/loop_settings.h"

namespace trainer {

/// When to save, and which saves to keep.
struct CheckpointSettings {
  int64_t every_steps = 0;                 ///< 0: not by steps
  double every_seconds = 0;                ///< 0: not by time
  int64_t keep_latest = 2;                 ///< at least 2
  std::optional<std::string> keep_best;    ///< a metric
  std::vector<std::string> allow_changes;  ///< keys in which checkpoints of the same run may differ

  bool in_background() const { return every_steps > 0 || every_seconds > 0 || keep_best; }
  bool is_due(int64_t step) const { return every_steps > 0 && step % every_steps == 0; }
  bool is_best(const LoopState& state) const { return keep_best && state.is_best(*keep_best); }
};

/// Saves a run at intervals. Copies its state between two steps and writes it in the background while
/// training continues; training waits for a save outside the policy. A failed save is reported at the next
/// step and retried with the state of that time. Existing checkpoints stay.
class Checkpoints final : public Checkpointer {
 public:
  /// Below `root`. `facts` is the part of the state that stays the same; `durable` makes the metrics durable
  /// before a checkpoint. `require_held` throws Error if the run's directory is no longer this
  /// process's: nothing is then renamed or removed there. `others` hold parts of divided tensors.
  Checkpoints(
      Executable& executable, std::filesystem::path root, CheckpointSettings policy,
      const LoopSettings& settings, RunState facts, Log& log, std::function<void()> durable,
      std::function<void()> require_held = [] {}, OtherImages* others = nullptr);
  ~Checkpoints() override { wait(); }

  /// Where the state is copied to before it is written, if anything can be written while training continues.
  static StateImage::Memory image_memory(const Plan& plan, const CheckpointSettings& policy);
  /// Host memory that checkpoints take on the plan's rank in a run with these settings.
  static int64_t memory_bytes(const Plan& plan, const CheckpointSettings& policy);

  /// Of a checkpoint, approximately.
  static int64_t checkpoint_bytes(const Plan& plan);
  /// By the clock of steady_seconds: from then on the first save is overdue, unless the settings ask for an
  /// earlier one.
  void save_first_by(std::optional<double> time) { first_by_ = time; }

  /// The run continues after this step; `guards` says whether its guards are those of the checkpoints up to
  /// that step.
  void begin_at(int64_t step, Guards guards);
  /// The run resumes from its own checkpoint, which need not be saved again. Later ones, which
  /// were skipped, are set aside.
  void go_on_from(const ResumePoint& point);

  bool is_due(int64_t step) const override { return policy_.is_due(step); }
  /// By time, for the first save, or because a failed save should be retried.
  bool is_overdue() const override;
  bool is_best(const LoopState& state) const override { return policy_.is_best(state); }
  void save(const LoopState& loop) override;
  void report() override;
  /// Tries three times.
  void save_now(const LoopState& state) override;
  void wait() override;
  /// Waits for a save in progress. Logs each checkpoint that is skipped.
  std::optional<LoopState> restore() override;

  /// The best evaluation that is saved.
  const BestEvaluation& best() const { return facts_.best; }
  int64_t failures() const { return failures_; }  ///< so far
  double longest_seconds() const { return longest_seconds_; }

 private:
  /// Distinguishes a state from others of its run.
  struct Moment {
    int64_t step = -1, validated = -1;
    bool operator==(const Moment&) const = default;
  };

  void write(const RunState& state);
  void tell_notes();
  void keep_best(const BestEvaluation& best);
  RunState full_state(const LoopState& loop) const;
  std::string text_of_problem() const;
  void warn_if_disk_is_full();

  Executable& executable_;
  std::filesystem::path root_;
  CheckpointSettings policy_;
  LoopSettings settings_;
  RunState facts_;
  Log& log_;
  std::function<void()> durable_, require_held_;
  std::vector<std::string> notes_;  ///< of the rotation, not logged yet
  CheckpointRotation rotation_;
  StateImage image_;

  std::thread writer_;
  std::atomic<bool> is_done_ = true;  ///< the writer has finished: the members below may be read
  std::exception_ptr problem_;        ///< of the last save; null if it went well
  double seconds_ = 0;

  bool is_reported_ = true;
  Moment saving_, saved_;
  int64_t from_ = 0;              ///< the step from which this process continued
  int64_t begun_at_ = 0;          ///< the step at which this process began
  Guards guards_ = Guards::same;  ///< of checkpoints up to there
  BestEvaluation saving_best_;    ///< the best one once the current save is done
  bool is_best_kept_ = true;      ///< model_best.safetensors is of the best one
  int64_t failures_ = 0, in_a_row_ = 0;
  double last_begin_ = 0, longest_seconds_ = 0;
  std::optional<double> first_by_;  ///< until the first save
  bool warned_ = false;
};

}  // namespace trainer
