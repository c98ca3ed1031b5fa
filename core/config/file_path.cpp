// SPDX-License-Identifier: Apache-2.0
#include "core/config/file_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/config/value.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// A recipe from a pipe has no folder.
bool is_pipe(const std::string& file) {
  std::error_code ignored;
  const fs::file_status status = fs::status(file, ignored);
  return fs::exists(status) && !fs::is_regular_file(status);
}

/// An absolute path stays as it is.
std::string below(const fs::path& base, const std::string& written) {
  const fs::path path = expand_home(written);
  return base.empty() ? path.string() : (base / path).string();
}

bool is_anchored(const std::string& written) {
  return fs::path(expand_home(written)).is_absolute();
}

/// With the links in it resolved, so that ".." may be taken off after it.
fs::path absolute_base(const FilePath& path) {
  std::error_code error;
  const fs::path base = path.base.empty() ? "." : path.base;
  fs::path found = fs::canonical(base, error);
  return error ? fs::absolute(base) : found;
}

std::string absolute(const FilePath& of, const std::string& written) {
  if (written.empty() || is_anchored(written)) return written;
  fs::path result = absolute_base(of);
  bool is_above = true;
  for (const fs::path& part : fs::path(written)) {
    is_above = is_above && (part == ".." || part == ".");
    if (!is_above) result /= part;
    if (is_above && part == "..") result = result.parent_path();
  }
  return result.string();
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Each part of a list, or the whole path.
template <class Change>
std::string changed(const FilePath& path, const Change& change) {
  if (!path.is_list) return change(path.written);
  std::vector<std::string> parts = parts_of(path.written);
  std::ranges::transform(parts, parts.begin(), change);
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace

std::string expand_home(const std::string& text) {
  const char* home = std::getenv("HOME");
  const bool is_home = text == "~" || text.starts_with("~/");
  return is_home && home != nullptr && *home != '\0' ? home + text.substr(1) : text;
}

FilePath resolve_path(const std::string& written, const Location& where) {
  FilePath path(written);
  path.is_of_recipe = where.file != kCommandLine && !is_pipe(where.file);
  if (path.is_of_recipe) path.base = fs::path(where.file).parent_path().string();
  path.has_base = !written.empty() && !is_anchored(written);
  path.resolved = written.empty() ? "" : below(path.base, written);
  return path;
}

FilePath resolve_list(const FilePath& paths) {
  FilePath list = paths;
  list.is_list = true;
  list.has_base = false;
  list.resolved = changed(list, [&](const std::string& part) {
    list.has_base = list.has_base || !is_anchored(part);
    return below(list.base, part);
  });
  return list;
}

std::string from_anywhere(const FilePath& path) {
  if (!path.has_base) return path.written;
  return changed(path, [&](const std::string& part) { return absolute(path, part); });
}

std::string from_anywhere(const FilePath& path, const std::string& raw) {
  const auto below_base = [&](const std::string& part) { return (absolute_base(path) / part).string(); };
  if (!path.is_list) return below_base(raw);
  const std::vector<std::string> expanded = parts_of(path.written);
  std::vector<std::string> parts = parts_of(raw);
  if (parts.size() != expanded.size()) return raw;  // a variable holds several, with unknown borders
  for (size_t i = 0; i < parts.size(); ++i)
    if (!is_anchored(expanded[i])) parts[i] = below_base(parts[i]);
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string with_base(const FilePath& path, const std::string& file) {
  const std::string folder = path.base.empty() ? "" : below(path.base, "");
  const bool is_below = file.starts_with(folder) && !is_anchored(file.substr(folder.size()));
  if (!path.has_base || !is_below) return file;
  return fmt::format("{}, relative to the {} {}", file.substr(folder.size()),
                     path.is_of_recipe ? "recipe's folder" : "working directory",
                     absolute_base(path).string());
}

std::string with_base(const FilePath& path) {
  return with_base(path, path.resolved);
}

}  // namespace trainer
