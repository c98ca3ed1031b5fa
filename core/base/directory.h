// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace trainer {

/// One name in a directory. A directory may hold a million entries, so each is only a name.
class DirectoryEntry {
 public:
  DirectoryEntry(std::shared_ptr<const std::filesystem::path> directory, std::string name,
                 std::filesystem::file_type type)
      : directory_(std::move(directory)), name_(std::move(name)), type_(type) {}

  std::filesystem::path path() const { return *directory_ / name_; }
  bool is_symlink() const { return type_ == std::filesystem::file_type::symlink; }
  /// Or a link to one. False if the system does not say, as of a link in a circle.
  bool is_directory() const;

 private:
  std::shared_ptr<const std::filesystem::path> directory_;
  std::string name_;
  std::filesystem::file_type type_;
};

/// The entries of a directory, in any order; those found before a `problem`. In place of the library's
/// iterators, which end the process if they get no memory.
std::vector<DirectoryEntry> directory_entries(const std::filesystem::path& directory,
                                              std::error_code& problem);
/// The same; throws std::filesystem::filesystem_error.
std::vector<DirectoryEntry> directory_entries(const std::filesystem::path& directory);

/// Removes a file or a directory with all that it holds; 0, or the errno of the call that failed. Links are
/// not followed. Needs no memory of the program's, so that destructors may call it.
int remove_tree(const std::filesystem::path& path) noexcept;

}  // namespace trainer
