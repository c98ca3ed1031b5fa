// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer {

/// Sets the file that report_exit_code writes to. The parent process reads it.
void report_exit_code_in(const std::string& file);
/// Writes the exit code to that file, if one was set. Call it before each exit; it is safe in signal
/// handlers.
void report_exit_code(int code) noexcept;

}  // namespace trainer
