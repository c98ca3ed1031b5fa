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

/// Throws Error (exit 65) with the path and the kind of file unless it is a regular file or missing.
void require_regular(const std::filesystem::path& path, Links links = Links::follow);

/// open(2) of a regular file. It never waits, and opens no device. Throws Error: exit 65 if something else
/// is there, 74 if the system refuses.
FileDescriptor open_regular(const std::filesystem::path& path, int flags = O_RDONLY,
                            Links links = Links::follow);

/// The size limit of a text that is read whole, unless the caller gives another.
constexpr int64_t kMostTextBytes = int64_t{1} << 30;

/// The whole of a regular file; nothing if there is none. Throws Error as open_regular does, and with exit
/// 65 if it has more than `most` bytes.
std::optional<std::string> read_text(const std::filesystem::path& path, Links links = Links::follow,
                                     int64_t most = kMostTextBytes);

/// The same for a path from the user, which may be a pipe: it waits for the writer. Throws Error (exit 74) if
/// the file is missing.
std::string read_input(const std::filesystem::path& path, int64_t most = kMostTextBytes);

/// Calls take(line, is_ended) for each line of a regular file, in order; only the last may lack its end.
/// Returns false if the file is missing. Throws Error as open_regular does, and with exit 65 at a line of
/// more than 64 MiB.
bool read_lines(const std::filesystem::path& path, Links links,
                const std::function<void(const std::string& line, bool is_ended)>& take);

}  // namespace trainer
