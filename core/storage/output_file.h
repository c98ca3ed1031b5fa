// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/storage/atomic_file.h"

namespace trainer {

/// A file that a command line names to be written. Symbolic links are followed. A regular file is replaced as
/// a whole, as by write_atomically; pipes and devices are written to as they are, and so is what /dev/stdout
/// stands for.
class OutputFile {
 public:
  /// Throws Error: exit 64 if `path` is a directory or one of `inputs`, exit 74 if it cannot be looked
  /// at.
  explicit OutputFile(const std::filesystem::path& path,
                      const std::vector<std::filesystem::path>& inputs = {});

  /// Whether the bytes go to where this process prints.
  bool is_standard_output() const;

  /// Writes what `produce` gives to the sink. Throws Error (exit 74), and whatever `produce` throws; a
  /// regular file is then as it was before.
  void write(const std::function<void(const ByteSink&)>& produce) const;

 private:
  void follow_links();
  void write_through(const std::function<void(const ByteSink&)>& produce) const;

  std::filesystem::path shown_;  ///< as it was given, for messages
  std::filesystem::path path_;   ///< no link
  int descriptor_ = -1;          ///< of this process, if the path stands for one
  bool is_stream_ = false;
};

}  // namespace trainer
