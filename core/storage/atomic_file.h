// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "core/base/file.h"

namespace trainer {

/// Takes the next bytes of a file.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Replaces `path` by the bytes that `produce` gives to the sink. At any moment, also after a crash, the file
/// is either the old one or the whole new one. If that fails it throws Error (exit 74) and leaves the old
/// file; exceptions of `produce` are passed on.
void write_atomically(const std::filesystem::path& path, const std::function<void(const ByteSink&)>& produce);
void write_atomically(const std::filesystem::path& path, std::string_view text);
/// The same in an open directory, wherever that is by now.
void write_atomically(const FileDescriptor& directory, const std::filesystem::path& path,
                      std::string_view text);

/// Whether a file of this name is an unfinished one of write_atomically.
bool is_unfinished(std::string_view name);

}  // namespace trainer
