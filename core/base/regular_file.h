// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/base/file.h"

namespace trainer {

/// Whether the last part of a path may be a symbolic link. Names within a run's directory may not: in a
/// directory from elsewhere a link could lead to any file.
enum class Links { follow, refuse };

/// Throws Error (exit 65) with the path and what is there unless that is a regular file, or nothing.
void require_regular(const std::filesystem::path& path, Links links = Links::follow);

/// open(2) of a regular file. It never waits, and opens no device. Throws Error: exit 65 if something else
/// is there, 74 if the system refuses.
FileDescriptor open_regular(const std::filesystem::path& path, int flags = O_RDONLY,
                            Links links = Links::follow);

/// What a text that is read whole may have, unless the caller knows better.
constexpr int64_t kMostTextBytes = int64_t{1} << 30;

/// The whole of a regular file; nothing if there is none. Throws Error as open_regular does, and with exit
/// 65 if it has more than `most` bytes.
std::optional<std::string> read_text(const std::filesystem::path& path, Links links = Links::follow,
                                     int64_t most = kMostTextBytes);

/// The same of what a user names, which may be a pipe: its writer is waited for. Throws Error (exit 74) if
/// there is nothing.
std::string read_input(const std::filesystem::path& path, int64_t most = kMostTextBytes);

/// Calls take(line, is_ended) for each line of a regular file, in order; only the last may lack its end.
/// Returns false if there is no file. Throws Error as open_regular does, and with exit 65 at a line of
/// more than 64 MiB.
bool read_lines(const std::filesystem::path& path, Links links,
                const std::function<void(const std::string& line, bool is_ended)>& take);

}  // namespace trainer
