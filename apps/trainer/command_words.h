// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trainer {

/// The words of a command line after the program, beginning with a command. `trainer --config F` means
/// `trainer train --config F`, and so does `trainer F`. Throws Error (exit 64) at an unknown command, with
/// the nearest.
std::vector<std::string> with_command(int argc, const char* const* argv);

/// How to write a recipe's key that was given as an option, such as `--lr`, for a message; "" for other
/// words.
std::string key_of_option(const std::string& word);

}  // namespace trainer
