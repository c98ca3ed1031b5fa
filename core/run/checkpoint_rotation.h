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

/// Which checkpoints of a run's directory are kept. Counts only those that are intact and of this run, and
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
  /// `warn` is called by whichever thread calls the others.
  CheckpointRotation(Settings settings, Warn warn) : settings_(std::move(settings)), warn_(std::move(warn)) {}

  /// This process has written that checkpoint, or verified it.
  void add(int64_t step) { intact_.insert(step); }
  /// Of what was added, only this is left.
  void begin_with(int64_t step) { intact_ = {step}; }
  /// Gives checkpoints that a resume has skipped another name. Throws what require_held throws.
  void set_aside(const std::vector<std::filesystem::path>& skipped);
  /// Before a save: throws Error (exit 74) if a checkpoint of that step is there that may not be replaced.
  void make_room(int64_t step);
  /// Removes those up to `newest` that nothing asks for. Throws what require_held throws.
  void remove_old(int64_t newest, int64_t best);

 private:
  bool is_intact(const std::filesystem::path& checkpoint);
  bool may_remove(const std::filesystem::path& checkpoint);
  bool is_of_run(const ResumePoint& point);
  void leave(const std::filesystem::path& checkpoint, const std::string& why);

  Settings settings_;
  Warn warn_;
  std::set<int64_t> intact_;              ///< steps whose checkpoints this process knows to be so
  std::set<std::filesystem::path> left_;  ///< of which it has warned
};

}  // namespace trainer
