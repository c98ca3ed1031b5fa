// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace trainer {

/// What a command printed, or why nothing is known ("" where it ended well).
struct CommandOutput {
  std::string text;  ///< of its standard output, 64 KiB at most
  std::string problem;
};

/// Runs `arguments[0]`, which is looked for in PATH, without a shell; its complaints go where ours go. With
/// whatever it has started itself, it is killed when `patience` is over.
CommandOutput run_command(const std::vector<std::string>& arguments, std::chrono::milliseconds patience);

}  // namespace trainer
