// SPDX-License-Identifier: Apache-2.0
#include "core/storage/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

namespace trainer {

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

void FileDescriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Error io_error(const std::filesystem::path& path, std::string_view call, int number) {
  const std::string reason = std::generic_category().message(number);
  return Error(ExitCode::io, fmt::format("{}: {}: {}", path.string(), call, reason));
}

FileDescriptor open_file(const std::filesystem::path& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) throw io_error(path, "open", errno);
  return FileDescriptor(fd);
}

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return EIO;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return 0;
}

void read_exactly(int fd, const std::filesystem::path& path, int64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(fd, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw io_error(path, "read", errno);
    if (count == 0) {
      throw Error(ExitCode::data,
                  fmt::format("{}: expected {} more bytes at offset {}, but the file ends there",
                              path.string(), bytes.size(), offset));
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

std::optional<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (stream.bad()) return std::nullopt;
  return text;
}

}  // namespace trainer
