// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

namespace trainer {

/// Takes the next bytes of a file.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Replaces `path` by what `produce` gives to the sink: at any moment, also after a crash, the file is either
/// the old one or the whole new one. Throws Error (exit 74) and leaves the old file where that fails, and
/// passes on whatever `produce` throws.
void write_atomically(const std::filesystem::path& path, const std::function<void(const ByteSink&)>& produce);
void write_atomically(const std::filesystem::path& path, std::string_view text);

/// Whether a file of this name is one that write_atomically has not come to finish.
bool is_unfinished(std::string_view name);

}  // namespace trainer
