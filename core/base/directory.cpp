// SPDX-License-Identifier: Apache-2.0
#include "core/base/directory.h"

#include <dirent.h>
#include <ftw.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <new>
#include <string>
#include <string_view>

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Some file systems do not return the type with the name.
fs::file_type type_of(const dirent& entry, const fs::path& directory) {
  if (entry.d_type == DT_DIR) return fs::file_type::directory;
  if (entry.d_type == DT_REG) return fs::file_type::regular;
  std::error_code unknown;
  return fs::symlink_status(directory / entry.d_name, unknown).type();
}

int remove_one(const char* path, const struct stat* /*about*/, int type, FTW* /*place*/) {
  return type == FTW_DP ? ::rmdir(path) : ::unlink(path);
}

}  // namespace

bool DirectoryEntry::is_directory() const {
  std::error_code unknown;
  return type_ == fs::file_type::directory || (is_symlink() && fs::is_directory(path(), unknown));
}

std::vector<DirectoryEntry> directory_entries(const fs::path& directory, std::error_code& problem) {
  std::vector<DirectoryEntry> entries;
  const auto shared = std::make_shared<const fs::path>(directory);
  problem.clear();
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
  errno = stream == nullptr ? errno : 0;
  while (stream != nullptr) {
    errno = 0;  // the only way to distinguish the end from a failure
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    entries.emplace_back(shared, std::string(name), type_of(*entry, directory));
  }
  if (errno != 0) problem.assign(errno, std::generic_category());
  if (problem == std::errc::not_enough_memory) throw std::bad_alloc();
  return entries;
}

std::vector<DirectoryEntry> directory_entries(const fs::path& directory) {
  std::error_code problem;
  std::vector<DirectoryEntry> entries = directory_entries(directory, problem);
  if (problem) throw fs::filesystem_error("cannot list the directory", directory, problem);
  return entries;
}

int remove_tree(const fs::path& path) noexcept {
  constexpr int kOpenAtOnce = 16;
  return ::nftw(path.c_str(), remove_one, kOpenAtOnce, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : errno;
}

}  // namespace trainer
