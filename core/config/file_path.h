// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <filesystem>
#include <string>

#include "core/base/error.h"

namespace trainer {

/// A path as a value of a recipe. A relative one starts at the folder of the recipe's file, or at the working
/// directory if it is given on the command line.
struct FilePath {
  FilePath() = default;
  // A path converts to text and back implicitly.
  // NOLINTBEGIN(google-explicit-constructor)
  /// One that no recipe gives: it is taken as it is.
  template <class Text>
  requires std::convertible_to<Text, std::filesystem::path> FilePath(const Text& text)
      : written(std::filesystem::path(text).string()), resolved(written) {}

  bool empty() const { return written.empty(); }
  operator const std::string&() const { return resolved; }
  // NOLINTEND(google-explicit-constructor)

  std::string written;   ///< identifies a run, so that it may be resumed from elsewhere
  std::string resolved;  ///< the path to open
  std::string base;      ///< the folder that a relative path begins at; empty: the working directory
  bool has_base = false, is_of_recipe = false, is_list = false;
};

/// `~` and `~/x` with the home directory in place of the tilde; other texts as they are.
std::string expand_home(const std::string& text);

/// The path at `where`.
FilePath resolve_path(const std::string& written, const Location& where);
/// The same for several paths in one text, separated by commas.
FilePath resolve_list(const FilePath& paths);

/// The path as seen from any working directory: absolute if it is relative, otherwise as written.
std::string from_anywhere(const FilePath& path);
/// The same for its unexpanded text; the values of its environment variables are relative paths.
std::string from_anywhere(const FilePath& path, const std::string& raw);

/// For messages about a missing file: `file`, to which `path` or a part of it resolves, and the folder that
/// was searched: "x.idx, relative to the recipe's folder F".
std::string with_base(const FilePath& path, const std::string& file);
std::string with_base(const FilePath& path);

}  // namespace trainer
