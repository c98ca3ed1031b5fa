// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/storage/atomic_file.h"

namespace trainer {

/// An output file named on the command line. Symbolic links are followed. A regular file is replaced as a
/// whole, as by write_atomically; pipes and devices, and the target of /dev/stdout, are written directly.
class OutputFile {
 public:
  /// Throws Error: exit 64 if `path` is a directory or one of `inputs`, exit 74 if it cannot be looked
  /// at.
  explicit OutputFile(const std::filesystem::path& path,
                      const std::vector<std::filesystem::path>& inputs = {});

  /// Whether the bytes go to this process's standard output.
  bool is_standard_output() const;

  /// The file itself, where links led.
  const std::filesystem::path& path() const { return path_; }

  /// Writes the bytes that `produce` gives to the sink. Throws Error (exit 74), and passes on exceptions of
  /// `produce`; a regular file is then as it was before.
  void write(const std::function<void(const ByteSink&)>& produce) const;

 private:
  void follow_links();
  void write_through(const std::function<void(const ByteSink&)>& produce) const;

  std::filesystem::path shown_;  ///< as it was given, for messages
  std::filesystem::path path_;   ///< no link
  int descriptor_ = -1;          ///< of this process, if the path names one
  bool is_stream_ = false;
};

}  // namespace trainer
