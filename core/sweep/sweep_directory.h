// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/sweep/sweep_plan.h"
#include "core/sweep/sweep_state.h"

namespace trainer {

/// The file in a sweep's directory that says what it varies.
constexpr const char* kSweepFile = "sweep.json";

/// What sweep.json holds.
struct StoredSweep {
  int64_t threads = 0;  ///< of each rank of a trial: they affect the last bits of results
  int64_t trials = 0;
  std::string settings;                 ///< all keys of the recipe, in the form of identities
  std::string recipe;                   ///< the same as a recipe that can be read from anywhere
  std::vector<Observation> known = {};  ///< results of earlier sweeps, as they were when this one began
};
/// Nothing for another text.
std::optional<StoredSweep> parse_sweep(std::string_view text);

/// run.output_dir; by default "runs/{run.name}-sweep".
std::filesystem::path sweep_path(const Recipe& recipe);

/// The directory of a sweep, which any number of processes share.
class SweepDirectory {
 public:
  using Warn = std::function<void(const std::string&)>;

  /// Makes it, or joins the sweep in it; `plan` outlives it. `threads` count for a new one. Throws Error:
  /// exit 78 if it is of another sweep or of somebody else; 74 if it cannot be used.
  SweepDirectory(const SweepPlan& plan, int64_t threads);

  const std::filesystem::path& path() const { return path_; }
  int64_t threads() const { return threads_; }
  /// The results of the sweeps in sweep.know, for tpe.
  const std::vector<Observation>& known() const { return known_; }

  /// The records of all trials. Files that have not changed since the last call are not read again. A damaged
  /// one is named once, and left out: its trial goes on from its own run.
  const TrialRecords& records(const Warn& warn);

 private:
  struct Seen {
    uint64_t inode = 0;
    int64_t modified = 0, bytes = 0;
    bool operator==(const Seen&) const = default;
  };

  std::filesystem::path path_;
  const SweepPlan& plan_;
  int64_t threads_ = 0;
  std::vector<Observation> known_;
  TrialRecords records_;
  std::map<int64_t, Seen> seen_;
};

/// The sweep in a directory, to be shown; nothing if there is none. Throws Error (exit 65) if its file is
/// damaged, 78 if its recipe is no longer understood.
std::optional<SweepPlan> sweep_in(const std::filesystem::path& directory);

/// The records in a directory; damaged ones are left out and named.
TrialRecords read_trials(const std::filesystem::path& directory, const SweepPlan& plan,
                         const SweepDirectory::Warn& warn);

}  // namespace trainer
