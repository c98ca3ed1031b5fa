// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// Text that is safe for a terminal or a log: each control character but tabs and line breaks is escaped as
/// `\x1b` or `\u009b`. A terminal would take some of them for commands.
std::string printable(std::string_view text);

/// A name for a message. Names of files, classes and tensors may contain anything: tabs, line breaks and
/// invisible characters that change how a line looks are escaped, too.
std::string one_line(std::string_view text);

}  // namespace trainer
