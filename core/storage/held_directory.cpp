// SPDX-License-Identifier: Apache-2.0
#include "core/storage/held_directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace trainer {

HeldDirectory::HeldDirectory(const std::filesystem::path& path)
    : path_(path), fd_(open_file(path, O_RDONLY | O_DIRECTORY)) {
  struct stat status = {};
  if (::fstat(fd_.get(), &status) != 0) throw io_error(path_, "fstat", errno);
  device_ = status.st_dev;
  number_ = status.st_ino;
}

bool HeldDirectory::is_in_place() const {
  struct stat status = {};
  if (::stat(path_.c_str(), &status) == 0) return status.st_dev == device_ && status.st_ino == number_;
  return errno != ENOENT && errno != ENOTDIR && errno != ESTALE;
}

}  // namespace trainer
