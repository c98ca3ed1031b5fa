// SPDX-License-Identifier: Apache-2.0
#include "core/storage/user_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <span>
#include <vector>

#include "core/base/checksum.h"
#include "core/base/directory.h"
#include "core/base/regular_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "trainer cache 1";

std::string sum_of(std::string_view text) {
  return fmt::format("{:016x}", checksum(std::as_bytes(std::span(text.data(), text.size()))));
}

/// The contents of a file: the format, a checksum of all that follows, the key, the text.
std::string content_of(std::string_view key, std::string_view text) {
  const std::string rest = fmt::format("{}\n{}", key, text);
  return fmt::format("{}\n{}\n{}", kFormat, sum_of(rest), rest);
}

std::optional<fs::path> absolute_in(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value != '/') return std::nullopt;
  return value;
}

}  // namespace

std::optional<fs::path> user_cache_directory() {
  if (const auto cache = absolute_in("XDG_CACHE_HOME")) return *cache / "trainer";
  if (const auto home = absolute_in("HOME")) return *home / ".cache/trainer";
  return std::nullopt;
}

fs::path UserCache::file_of(std::string_view key) const {
  return directory_ / sum_of(key);
}

std::optional<std::string> UserCache::find(std::string_view key) {
  std::optional<std::string> content;
  try {
    content = read_text(file_of(key), Links::refuse);
  } catch (const std::exception&) {  // an unreadable file counts as absent
    return std::nullopt;
  }
  if (!content) return std::nullopt;
  const size_t begin_of_sum = kFormat.size() + 1, begin_of_key = begin_of_sum + sum_of("").size() + 1;
  const size_t begin = begin_of_key + key.size() + 1;
  if (content->size() < begin) return std::nullopt;
  const std::string_view all = *content, rest = all.substr(begin_of_key);
  const bool is_intact = all.substr(0, begin_of_key) == fmt::format("{}\n{}\n", kFormat, sum_of(rest));
  if (!is_intact || rest.substr(0, key.size()) != key || rest[key.size()] != '\n') return std::nullopt;
  content->erase(0, begin);  // in place: a text may be large
  return content;
}

/// No fsync: after a power cut the checksum decides about the file.
void UserCache::put(std::string_view key, std::string_view text) {
  std::error_code failed;
  fs::create_directories(directory_, failed);
  trim();
  static std::atomic<int> parts{0};
  const fs::path file = file_of(key), part = file.string() + fmt::format(".tmp-{}-{}", ::getpid(), ++parts);
  try {
    const std::string content = content_of(key, text);
    NewFile(part).write(std::as_bytes(std::span(content)));
  } catch (const Error&) {
    fs::remove(part, failed);
    return;
  }
  fs::rename(part, file, failed);
}

void UserCache::trim() {
  if (std::exchange(is_trimmed_, true)) return;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code failed;
  for (const DirectoryEntry& entry : directory_entries(directory_, failed))
    files.emplace_back(fs::last_write_time(entry.path(), failed), entry.path());
  if (files.size() <= most_files_) return;
  std::ranges::sort(files);
  files.resize(files.size() / 2);
  for (const auto& [time, path] : files) fs::remove(path, failed);
}

}  // namespace trainer
