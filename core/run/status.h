// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace trainer {

/// The name of the file in a run's directory.
constexpr const char* kStatusFile = "status.json";

/// One of several ranks, in the run's report.
struct RankState {
  std::string host;
  std::string activity;  ///< "computing"
  int64_t step = 0;
  bool waits = false;                         ///< for other ranks
  int64_t bytes = 0;                          ///< of the host's memory
  std::optional<int64_t> gpu = std::nullopt;  ///< its number on the host
};

/// A run's own report of its state.
struct RunStatus {
  enum class State {
    running,
    saved,   ///< stopped with a checkpoint; the same command resumes it
    paused,  ///< at run.stop_after, with a checkpoint; a larger value resumes it
    failed,
    finished,
  };
  State state = State::running;
  int64_t step = 0, steps = 0;         ///< batches consumed, and all there will be
  std::optional<int64_t> pause_after;  ///< the step of run.stop_after, if it is given
  std::optional<int64_t> began_at;     ///< the step after which the writer started or resumed
  std::optional<int64_t> exit_code;    ///< of a process that has ended
  std::string message;                 ///< why it ended; empty if there is nothing to say
  std::vector<RankState> ranks;        ///< empty if there is one process
  int64_t pid = 0;                     ///< of the writer
  std::string host;                    ///< of the writer
  int64_t updated = 0;                 ///< when it was written, in Unix seconds
};

/// "running", "saved", "paused", "failed" or "finished".
std::string_view to_string(RunStatus::State state);

/// Replaces the file atomically; `pid`, `host` and `updated` are filled in here. Throws Error (exit 74).
void write_status(const std::filesystem::path& path, RunStatus status);

/// Nothing if it is another text.
std::optional<RunStatus> parse_status(std::string_view text);
/// The same for a file, which may be missing.
std::optional<RunStatus> read_status(const std::filesystem::path& path);

/// Keeps the status of the run that this process works on. A full disk costs the status, not the run.
class StatusKeeper {
 public:
  /// Of a process that starts or resumes after step `began_at`.
  StatusKeeper(std::filesystem::path path, int64_t steps, int64_t began_at, int64_t pause_after = 0)
      : path_(std::move(path)) {
    now_.steps = steps;
    now_.began_at = began_at;
    if (pause_after > 0) now_.pause_after = pause_after;
  }

  /// Asks for the ranks whenever it writes that the run goes on.
  void ask_ranks(std::function<std::vector<RankState>()> ranks) { ranks_ = std::move(ranks); }
  /// Writes from time to time.
  void running(int64_t step);
  /// Returns `code`.
  ExitCode end(RunStatus::State state, int64_t step, ExitCode code, const std::string& message);

 private:
  void write();

  std::filesystem::path path_;
  RunStatus now_;
  std::function<std::vector<RankState>()> ranks_;
  double next_ = 0;  ///< when it is due
};

}  // namespace trainer
