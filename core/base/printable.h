// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// Text as a terminal or a log may have it: each control character but tabs and the ends of lines is a '?'.
/// Names of files, classes and layers may hold anything, and a terminal would take some of it for commands.
std::string printable(std::string_view text);

}  // namespace trainer
