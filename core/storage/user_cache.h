// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "core/base/text_cache.h"

namespace trainer {

/// $XDG_CACHE_HOME/trainer, else ~/.cache/trainer; nothing if neither variable is an absolute path.
std::optional<std::filesystem::path> user_cache_directory();

/// A file for each key in a directory of the user's. Processes share it without locks: a file is complete or
/// missing, and one that is damaged, of another key or unreadable counts as missing. If nothing can be
/// written, nothing is kept.
class UserCache final : public TextCache {
 public:
  explicit UserCache(std::filesystem::path directory, size_t most_files = 8192)
      : directory_(std::move(directory)), most_files_(most_files) {}

  std::optional<std::string> find(std::string_view key) override;
  void put(std::string_view key, std::string_view text) override;

 private:
  std::filesystem::path file_of(std::string_view key) const;
  /// Once in a process: removes the older half if there are too many.
  void trim();

  std::filesystem::path directory_;
  size_t most_files_;
  bool is_trimmed_ = false;
};

}  // namespace trainer
