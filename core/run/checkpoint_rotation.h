// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/run/resume.h"
#include "core/run/run_identity.h"

namespace trainer {

/// The checkpoints of a run's directory to keep. Counts only those that are intact and of this run, and
/// removes only those of this run. Damaged ones are set aside; all others stay as they are, with a warning.
class CheckpointRotation {
 public:
  struct Settings {
    std::filesystem::path root;
    RunIdentity run;
    std::vector<std::string> allow_changes;
    int64_t keep_latest = 2;
    /// Throws Error if the directory is no longer this process's. Called before each removal.
    std::function<void()> require_held;
  };
  /// `warn` is called by the thread that calls the other functions.
  CheckpointRotation(Settings settings, Warn warn) : settings_(std::move(settings)), warn_(std::move(warn)) {}

  /// This process has written that checkpoint, or verified it.
  void add(int64_t step) { intact_.insert(step); }
  /// Of all added ones, only this is left.
  void begin_with(int64_t step) { intact_ = {step}; }
  /// Renames checkpoints that a resume has skipped. Throws as require_held does.
  void set_aside(const std::vector<std::filesystem::path>& skipped);
  /// Before a save: throws Error (exit 74) if a checkpoint of that step exists that may not be replaced.
  void make_room(int64_t step);
  /// Removes those up to `newest` that no setting keeps. Throws as require_held does.
  void remove_old(int64_t newest, int64_t best);

 private:
  bool is_intact(const std::filesystem::path& checkpoint);
  bool may_remove(const std::filesystem::path& checkpoint);
  bool is_of_run(const ResumePoint& point);
  void leave(const std::filesystem::path& checkpoint, const std::string& why);

  Settings settings_;
  Warn warn_;
  std::set<int64_t> intact_;              ///< steps with checkpoints that this process has found to be intact
  std::set<std::filesystem::path> left_;  ///< it has warned of these
};

}  // namespace trainer
