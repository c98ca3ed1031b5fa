// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace trainer {

/// The text of a small file, such as those of /proc and /sys, which say nothing of their sizes. Nothing if it
/// cannot be read, or has more than 4 MiB, since a host of many containers has thousands of mounts; then
/// `errno` says why.
std::optional<std::string> read_small_file(const std::filesystem::path& path);

/// A decimal number that is all of the text, except for white space after it.
std::optional<int64_t> whole_number(std::string_view text);

/// Both: the number that a file has.
std::optional<int64_t> read_number(const std::filesystem::path& path);

}  // namespace trainer
