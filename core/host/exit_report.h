// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer {

/// Names the file in which this process leaves its exit code for the one that started it.
void report_exit_code_in(const std::string& file);
/// Writes it there, if a file is named. For every end of the process by itself, in signal handlers too.
void report_exit_code(int code) noexcept;

}  // namespace trainer
