// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// Text as a terminal or a log may have it: each control character but tabs and the ends of lines is written
/// as `\x1b` or `\u009b`. A terminal would take some of them for commands.
std::string printable(std::string_view text);

/// A name as a message may have it. Names of files, classes and tensors may hold anything: here also tabs,
/// the ends of lines and characters that change how a line looks without being seen are escaped.
std::string one_line(std::string_view text);

}  // namespace trainer
