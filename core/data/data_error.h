// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace trainer {

/// Throws Error (exit 65): what a file should have at an offset, and what it has.
[[noreturn]] void fail_in_file(const std::string& path, int64_t offset, const std::string& expected,
                               const std::string& found);

}  // namespace trainer
