// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/file_pattern.h"

#include <fmt/core.h>
#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <new>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/printable.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAnyFolders = "**/";

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> owned(&found, ::globfree);
  const auto is_failure = [](const char* /*directory*/, int error) { return error == ENOENT ? 0 : error; };
  const int outcome = ::glob(pattern.c_str(), 0, is_failure, &found);
  if (outcome == GLOB_NOSPACE) throw std::bad_alloc();
  if (outcome == GLOB_ABORTED) throw io_error(pattern, "list", errno);
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

/// A path as a pattern that matches only it.
std::string literal(const std::string& path) {
  std::string text;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

/// The folder and all below it. Links are not followed, so that the walk ends.
std::vector<std::string> folders_from(const std::string& folder) {
  std::vector<std::string> folders = {folder};
  for (size_t i = 0; i < folders.size(); ++i) {
    for (const DirectoryEntry& entry : directory_entries(folders[i].empty() ? "." : folders[i])) {
      const std::string name = entry.path().filename().string();
      if (entry.is_symlink() || !entry.is_directory() || name.starts_with('.')) continue;
      folders.push_back(folders[i] + name + "/");
    }
  }
  return folders;
}

/// Where "**/" begins as a folder of its own, or npos.
size_t any_folders_in(const std::string& pattern) {
  for (size_t at = pattern.find(kAnyFolders); at != std::string::npos;
       at = pattern.find(kAnyFolders, at + 1)) {
    if (at == 0 || pattern[at - 1] == '/') return at;
  }
  return std::string::npos;
}

std::vector<std::string> expanded(const std::string& pattern) {
  const size_t at = any_folders_in(pattern);
  if (at == std::string::npos) return matches(pattern);
  const std::string before = pattern.substr(0, at), after = pattern.substr(at + 3);
  std::vector<std::string> found;
  for (const std::string& start : before.empty() ? std::vector<std::string>{""} : matches(before)) {
    for (const std::string& folder : folders_from(start)) {
      const std::vector<std::string> here = expanded(literal(folder) + after);
      found.insert(found.end(), here.begin(), here.end());
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> files_of_pattern(const std::string& pattern) {
  std::vector<std::string> files = expanded(pattern);
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  for (const std::string& file : files) {
    std::error_code ignored;
    if (!fs::is_directory(file, ignored)) continue;
    const std::string folder = one_line((fs::path(file) / "").string());
    throw Error(ExitCode::recipe,
                fmt::format("{}: expected a file, found a folder; a pattern names its files: {}*.txt, or "
                            "{}**/*.txt for those of all folders below it, too",
                            one_line(file), folder, folder));
  }
  return files;
}

}  // namespace trainer
