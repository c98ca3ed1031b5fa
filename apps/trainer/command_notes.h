// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer {

/// The text below the options in a command's help: a note, examples and its exit codes. `command`: "train",
/// "data stats", or empty for the program itself.
std::string notes_of(const std::string& command);

}  // namespace trainer
