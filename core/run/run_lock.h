// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "core/base/file.h"
#include "core/host/log.h"

namespace trainer {

/// The name of the file in a run's directory that its process locks.
constexpr const char* kLockFile = "lock";

/// The lock of a run's directory, for this process until destroyed: the file `lock`, with the holder and a
/// token of this start. The file may be removed while it is locked, and some file systems do not show the
/// lock to other hosts: the file's contents then decide who has the directory.
class RunLock {
 public:
  /// Throws Error (exit 74) if another process has it.
  explicit RunLock(const std::filesystem::path& run);

  /// The reason why this process no longer has the directory: another one has taken it, or the file is gone.
  /// Nothing if it still has it. Throws Error (exit 74) if the file cannot be read.
  std::optional<std::string> loss() const;

 private:
  std::filesystem::path run_, path_;
  FileDescriptor fd_;
  std::string text_;  ///< of the file
};

/// Waits until no process holds a run's directory, at most this long. Logs that it waits.
void await_free(const std::filesystem::path& run, std::chrono::milliseconds patience, Log& log);

}  // namespace trainer
