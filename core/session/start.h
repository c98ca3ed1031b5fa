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

/// By run.resume and what the run's directory holds, which is only read. Throws Error: exit 78 where
/// run.resume=never would lose checkpoints, or where the checkpoint is of another run; 65 where there is none
/// at the path given.
Start choose_start(const RunSpec& spec);

/// Throws Error (exit 65) if the run has checkpoints but none can be used: starting over would overwrite what
/// may still be recovered.
void require_whole(const RunSpec& spec, const Start& start);

/// Whether the checkpoint, if any, is of a run with the same guards.
Guards guards_of(const RunSpec& spec, const Start& start);

/// Throws Error (exit 78) if guards differ from those of a run that has gone back to a checkpoint: the
/// steps that it skips since then would be done.
void require_rollbacks(const RunSpec& spec, const Start& start);

/// The same run with the micro-batch that it was saved with, if the recipe leaves it open.
RunSpec with_earlier_micro_batch(const RunSpec& spec, const Start& start);

/// Throws Error (exit 78) if the checkpoint is later than the end of a run of so many steps.
void require_steps_left(const RunSpec& spec, const Start& start, int64_t steps);

/// Throws Error (exit 78) if the checkpoint's run was trained, or evaluated, on other samples than these,
/// unless run.allow_changes has "data": then returns what to log.
std::optional<std::string> require_same_data(const RunSpec& spec, const Start& start,
                                             const Fingerprint& here);

/// Once the run's directory is held: throws Error (exit 74) if another process has saved in it since the
/// choice.
void require_unchanged(const RunSpec& spec, const Start& start);

/// What differs from before, a sentence each.
std::vector<std::string> departures(const RunSpec& spec, const Start& start, const Planner& planner,
                                    const Tuning& tuning);

/// The part of a run's state that stays as it is; of the samples for training and, where there are any, for
/// validation.
RunState lasting_state(const RunSpec& spec, const Planner& planner, const Tuning& tuning,
                       const DataSource& train, const DataSource* validation);

}  // namespace trainer
