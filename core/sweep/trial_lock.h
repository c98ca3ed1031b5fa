// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "core/base/file.h"

namespace trainer {

/// The lock of a trial: its process has it too, so that it lasts as long as that. The file trial-NNNN.lock
/// is never replaced.
class TrialLock {
 public:
  /// Nothing if another process has it. Throws Error (exit 74), also where a file system has no locks.
  static std::optional<TrialLock> take(const std::filesystem::path& sweep, int64_t number);
  /// Whether a process has it; does not create the file.
  static bool is_held(const std::filesystem::path& sweep, int64_t number);

  int descriptor() const { return file_.get(); }

 private:
  explicit TrialLock(FileDescriptor file) : file_(std::move(file)) {}

  FileDescriptor file_;
};

}  // namespace trainer
