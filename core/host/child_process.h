// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace trainer {

/// A command's output, or the reason why it is unknown ("" if it ended well).
struct CommandOutput {
  std::string text;  ///< of its standard output, 64 KiB at most
  std::string problem;
};

/// Runs `arguments[0]`, which is looked for in PATH, without a shell; its standard error is ours. It is
/// killed, with its children, after `patience`.
CommandOutput run_command(const std::vector<std::string>& arguments, std::chrono::milliseconds patience);

}  // namespace trainer
