// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/status.h"

namespace trainer {

/// A run's state as seen from outside.
enum class RunCondition {
  finished,
  saved,    ///< stopped with a checkpoint; the same command resumes it
  paused,   ///< at run.stop_after; a larger value resumes it
  failed,   ///< ended with an error
  running,  ///< a process holds the directory
  lost,     ///< neither ended nor held: killed
};
std::string_view to_string(RunCondition state);

struct RunStatus;
/// Of a run that no process holds any more, by its own report.
RunCondition ended_condition(const RunStatus& status);

/// The contents of a run's directory; unknown values are absent.
struct RunOverview {
  std::filesystem::path directory;
  RunCondition state = RunCondition::lost;
  int64_t step = 0;
  std::optional<int64_t> steps;  ///< all that there will be
  std::string metric;            ///< checkpoint.keep_best, else the first of the validation split, or `loss`
  std::optional<double> best;    ///< of `metric`; absent if it is unknown which is better
  std::optional<int64_t> best_step;     ///< the first step with it
  bool larger_is_better = false;        ///< of `metric`
  std::optional<double> loss;           ///< of the last interval of training
  std::optional<double> samples_per_s;  ///< of all ranks; median of the last intervals
  int64_t ranks = 1;                    ///< in the last interval
  std::vector<RankState> rank_states;   ///< what each last did; empty for one process
  bool on_gpu = false;                  ///< likewise
  int64_t updated = 0;                  ///< when the run last wrote, in Unix seconds
  std::optional<int64_t> exit_code;
  std::string message;                ///< why it ended
  std::vector<std::string> problems;  ///< files of the run that cannot be read, and why
};

/// Directories are searched this far below the first.
constexpr int kRunSearchDepth = 4;

/// The runs in and below a directory by their paths, those within runs left out; links are not followed.
/// Nothing is written. Throws Error (exit 74) if the directory cannot be read.
std::vector<RunOverview> list_runs(const std::filesystem::path& root);

/// The run in this directory, or nothing if there is none.
std::optional<RunOverview> look_at_run(const std::filesystem::path& directory);

}  // namespace trainer
