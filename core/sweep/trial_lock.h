// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/base/file.h"

namespace trainer {

/// The lock of a trial: its process has it too, so that it lasts as long as that. The files trial-NNNN.lock
/// and trial-NNNN.owner are never replaced; the sweep's process alone locks the latter.
class TrialLock {
 public:
  /// Nothing if another process has it. Throws Error (exit 74), also where a file system has no locks.
  static std::optional<TrialLock> take(const std::filesystem::path& sweep, int64_t number);
  /// Whether a process has it, of the trial or of a sweep; does not create the file.
  static bool is_held(const std::filesystem::path& sweep, int64_t number);
  /// Whether a sweep's process has it, which will go on with the trial.
  static bool is_owned(const std::filesystem::path& sweep, int64_t number);

  int descriptor() const { return file_.get(); }

 private:
  TrialLock(FileDescriptor file, FileDescriptor owner) : file_(std::move(file)), owner_(std::move(owner)) {}

  FileDescriptor file_, owner_;
};

}  // namespace trainer
