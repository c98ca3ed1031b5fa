// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace trainer {

/// Throws Error (exit 65): the expected and the actual contents of a file at an offset.
[[noreturn]] void fail_in_file(const std::string& path, int64_t offset, const std::string& expected,
                               const std::string& found);

}  // namespace trainer
