// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/host/log.h"
#include "core/metrics/metrics.h"
#include "core/recipe/job.h"
#include "core/run/run_directory.h"
#include "core/session/start.h"
#include "core/train/loop.h"

namespace trainer {

/// How a step's samples are divided: " (2 ranks x 4 x 16)"; "" if they are not.
std::string split_text(const BatchSplit& batch);

/// Logs the network, the device and the starting point of a run.
void announce(const Job& job, const Planner& planner, const RunDirectory& directory, const Start& start,
              const Tuning& tuning, Log& log);

/// The summary.json of a run that has done all its steps.
Summary summary_of(const Job& job, const LoopState& state, const LoopResult& result,
                   const BestEvaluation& best, int64_t unreadable_samples);

/// Why a run is finished before its last step; "" if it is not.
std::string ending_of(const Job& job, const LoopState& state);

/// "paused after step 10 of 20, as run.stop_after says; a larger value continues the run"
std::string pause_text(const Job& job, const LoopState& state);

/// "done: 20 steps in 3 s, validation loss 0.5; best top1 0.9 at step 10"
std::string closing_line(const Job& job, const LoopState& state, const LoopResult& result,
                         const BestEvaluation& best);

/// Logs where the time and the energy of a run went, and what could save time.
void announce_time(const LoopResult& result, Log& log);

/// The commands that use a finished run, for a shell: its report, and its best weights evaluated and applied.
std::vector<std::string> next_commands(const Job& job, const std::filesystem::path& run);

}  // namespace trainer
