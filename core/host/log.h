// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/file.h"
#include "core/host/progress.h"

namespace trainer {

/// Prints messages, without control characters, on the screen and, once a file is attached, writes them there
/// with the time (UTC). If the file can no longer be written, the log warns and continues without it. For one
/// thread.
class Log {
 public:
  /// The screen outlives the log. With a prefix, "[rank 3, node2] ", only warnings and errors are printed,
  /// after it: several processes share a terminal.
  explicit Log(Progress& screen, std::string prefix = "") : screen_(screen), prefix_(std::move(prefix)) {}

  /// Gives each message, with its time, to another place as well from now on.
  void pass_on(std::function<void(const std::string& line)> taker) { taker_ = std::move(taker); }

  /// Appends to `path` from now on. Throws Error (exit 74) if it cannot be opened.
  void attach(const std::filesystem::path& path);

  void info(std::string_view text) { write("", text); }
  void warn(std::string_view text) { write("warning: ", text); }
  void error(std::string_view text) { write("error: ", text); }

 private:
  void write(std::string_view level, std::string_view text);

  Progress& screen_;
  std::string prefix_;
  std::function<void(const std::string& line)> taker_;
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace trainer
