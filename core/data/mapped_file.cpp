// SPDX-License-Identifier: Apache-2.0
#include "core/data/mapped_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace trainer {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw Error(error == ENOENT ? ExitCode::recipe : ExitCode::io,
              fmt::format("{}: cannot be read: {}", path, std::strerror(error)));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  // Without O_NONBLOCK a pipe would be waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(path, errno);
  struct stat status {};
  int error = ::fstat(fd, &status) != 0 ? errno : S_ISREG(status.st_mode) ? 0 : EISDIR;
  if (error == 0 && status.st_size > 0) {
    const auto size = static_cast<size_t>(status.st_size);
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (memory == MAP_FAILED) {
      error = errno;
    } else {
      bytes_ = {static_cast<const std::byte*>(memory), size};
    }
  }
  ::close(fd);
  if (error != 0) fail(path, error);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace trainer
