// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/data/source.h"
#include "core/engine/tuning.h"
#include "core/recipe/job.h"
#include "core/run/checkpoint_files.h"
#include "core/run/resume.h"

namespace trainer {

/// Where a run starts or resumes.
struct Start {
  std::optional<ResumePoint> from;    ///< nothing: at step 0
  bool is_own = true;                 ///< of the run's own directory
  std::string newest;                 ///< checkpoint in the run's directory when that was chosen
  std::vector<std::string> notes;     ///< what somebody should know about the choice
  std::vector<std::string> unusable;  ///< of these, what is wrong with the run's own checkpoints

  int64_t step() const { return from ? from->state.loop.step : 0; }
  int64_t validated() const { return from ? from->state.loop.validated : 0; }
};

/// Decided by run.resume and the run's directory, which is only read. Throws Error: exit 78 if
/// run.resume=never would lose checkpoints, or if the checkpoint is of another run; 65 if there is none at
/// the given path.
Start choose_start(const RunSpec& spec);

/// Throws Error (exit 65) if the run has checkpoints but none is usable: starting over would overwrite
/// recoverable data.
void require_whole(const RunSpec& spec, const Start& start);

/// Whether the checkpoint, if any, is of a run with the same guards.
Guards guards_of(const RunSpec& spec, const Start& start);

/// Throws Error (exit 78) if the guards of a run that was rolled back have changed: it would do the steps
/// that it skipped.
void require_rollbacks(const RunSpec& spec, const Start& start);

/// The same run with the micro-batch that it was saved with, if the recipe leaves it open.
RunSpec with_earlier_micro_batch(const RunSpec& spec, const Start& start);

/// Throws Error (exit 78) if the checkpoint is later than the last of `steps` steps.
void require_steps_left(const RunSpec& spec, const Start& start, int64_t steps);

/// Throws Error (exit 78) if the checkpoint's run was trained, or evaluated, on other samples than these,
/// unless run.allow_changes has "data": then returns what to log.
std::optional<std::string> require_same_data(const RunSpec& spec, const Start& start,
                                             const Fingerprint& here);

/// Throws Error (exit 65) if the weights of the loss's teacher are not those that the checkpoint's run has
/// learnt from, unless run.allow_changes has "loss.teacher".
void require_same_teacher(const RunSpec& spec, const Start& start, const std::string& here);

/// Called once the run's directory is locked: throws Error (exit 74) if another process has saved in it since
/// the choice.
void require_unchanged(const RunSpec& spec, const Start& start);

/// The differences from before, a sentence each.
std::vector<std::string> departures(const RunSpec& spec, const Start& start, const Planner& planner,
                                    const Tuning& tuning);

/// The constant part of a run's state; of the training samples and of those for validation, if there are any.
RunState lasting_state(const RunSpec& spec, const Planner& planner, const Tuning& tuning,
                       const DataSource& train, const DataSource* validation);

}  // namespace trainer
