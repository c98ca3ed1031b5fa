// SPDX-License-Identifier: Apache-2.0
#include "core/data/file_pattern.h"

#include <fmt/core.h>
#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

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

/// `{A..B}` in a pattern.
struct NumberRange {
  size_t begin = 0, end = 0;  ///< of its text
  int64_t first = 0, last = 0;
  int width = 0;  ///< digits that each number is filled up to with zeros
};

/// Takes digits from the front; nothing if there are none, or more than any number of files has.
std::optional<std::string_view> take_digits(std::string_view& text) {
  const size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
  if (count == 0 || count > 9) return std::nullopt;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

int64_t number_of(std::string_view digits) {
  int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

/// The first range in a pattern. Braces around anything else are characters of a name.
std::optional<NumberRange> first_number_range(const std::string& pattern) {
  for (size_t at = pattern.find('{'); at != std::string::npos; at = pattern.find('{', at + 1)) {
    std::string_view rest = std::string_view(pattern).substr(at + 1);
    const auto first = take_digits(rest);
    if (!first || !rest.starts_with("..")) continue;
    rest.remove_prefix(2);
    const auto last = take_digits(rest);
    if (!last || !rest.starts_with('}')) continue;
    const bool is_filled = first->starts_with('0') || last->starts_with('0');
    return NumberRange{.begin = at,
                       .end = pattern.size() - rest.size() + 1,
                       .first = number_of(*first),
                       .last = number_of(*last),
                       .width = is_filled ? static_cast<int>(std::max(first->size(), last->size())) : 0};
  }
  return std::nullopt;
}

/// The patterns without ranges that one with ranges stands for.
std::vector<std::string> each_number(const std::string& pattern) {
  constexpr int64_t kMostFiles = 1'000'000;
  std::vector<std::string> done, open = {pattern};
  while (!open.empty()) {
    const std::string one = std::move(open.back());
    open.pop_back();
    const std::optional<NumberRange> range = first_number_range(one);
    if (!range) {
      done.push_back(one);
      continue;
    }
    const int64_t count = range->last - range->first + 1;
    if (count < 1 || count > kMostFiles - static_cast<int64_t>(done.size() + open.size())) {
      throw Error(
          ExitCode::recipe,
          fmt::format("{}: expected ascending numbers for at most {} files in braces, found {}",
                      one_line(pattern), kMostFiles, one.substr(range->begin, range->end - range->begin)));
    }
    // The last is taken first, so that the results are in order.
    for (int64_t number = range->last; number >= range->first; --number)
      open.push_back(fmt::format("{}{:0{}}{}", one.substr(0, range->begin), number, range->width,
                                 one.substr(range->end)));
  }
  return done;
}

}  // namespace

std::vector<std::string> missing_of_pattern(const std::string& pattern) {
  std::vector<std::string> missing = each_number(pattern);
  std::erase_if(missing, [](const std::string& one) { return !expanded(one).empty(); });
  return missing;
}

std::vector<std::string> files_of_pattern(const std::string& pattern, const std::string& ending) {
  std::vector<std::string> files;
  for (const std::string& one : each_number(pattern)) {
    for (std::string& file : expanded(one)) files.push_back(std::move(file));
  }
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  for (const std::string& file : files) {
    std::error_code ignored;
    if (!fs::is_directory(file, ignored)) continue;
    const std::string folder = one_line((fs::path(file) / "").string());
    throw Error(ExitCode::recipe,
                fmt::format("{}: expected a file, found a folder; a pattern names its files: {}*{}, or "
                            "{}**/*{} for those of all folders below it, too",
                            one_line(file), folder, ending, folder, ending));
  }
  return files;
}

}  // namespace trainer
