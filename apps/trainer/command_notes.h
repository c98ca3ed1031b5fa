// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer {

/// What the help of a command says below its options: a note, examples, and the exit codes that it may end
/// with. `command`: "train", "data stats", or empty for the program itself.
std::string notes_of(const std::string& command);

}  // namespace trainer
