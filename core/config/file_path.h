// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <filesystem>
#include <string>

#include "core/base/error.h"

namespace trainer {

/// A path as a value of a recipe. A relative one begins at the folder of the recipe's file, or at the working
/// directory where the command line gives it.
struct FilePath {
  FilePath() = default;
  // A path stands where a text is wanted, and the other way round. NOLINTBEGIN(google-explicit-constructor)
  /// One that no recipe gives: it is taken as it is.
  template <class Text>
  requires std::convertible_to<Text, std::filesystem::path> FilePath(const Text& text)
      : written(std::filesystem::path(text).string()), resolved(written) {}

  bool empty() const { return written.empty(); }
  operator const std::string&() const { return resolved; }
  // NOLINTEND(google-explicit-constructor)

  std::string written;   ///< what identifies a run, so that it may be resumed from elsewhere
  std::string resolved;  ///< what is opened
  std::string base;      ///< the folder that a relative path begins at; empty: the working directory
  bool has_base = false, is_of_recipe = false, is_list = false;
};

/// `~` and `~/x` with the home directory in place of the tilde; other texts as they are.
std::string expand_home(const std::string& text);

/// The path that stands at `where`.
FilePath resolve_path(const std::string& written, const Location& where);
/// The same of several that stand there in one text, separated by commas.
FilePath resolve_list(const FilePath& paths);

/// What leads there from any working directory: a relative path from the root, others as they are written.
std::string from_anywhere(const FilePath& path);
/// The same of its text before environment variables were expanded, whose values are relative paths.
std::string from_anywhere(const FilePath& path, const std::string& raw);

/// For messages about what is missing: `file`, which `path` or a part of it is resolved to, and where it was
/// looked for: "x.idx, relative to the recipe's folder F".
std::string with_base(const FilePath& path, const std::string& file);
std::string with_base(const FilePath& path);

}  // namespace trainer
