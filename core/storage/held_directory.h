// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "core/base/file.h"

namespace trainer {

/// A directory that is written to for hours. It may be moved, removed or unmounted meanwhile, and another one
/// may take its place; its path then leads elsewhere. While it is held, no other directory gets its inode
/// number.
class HeldDirectory {
 public:
  /// Throws Error (exit 74) if it cannot be opened.
  explicit HeldDirectory(const std::filesystem::path& path);

  /// Whether the path still leads to it. True if the system cannot determine it now.
  bool is_in_place() const;

 private:
  std::filesystem::path path_;
  FileDescriptor fd_;
  dev_t device_ = 0;
  ino_t number_ = 0;
};

}  // namespace trainer
