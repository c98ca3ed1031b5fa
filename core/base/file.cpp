// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "core/base/printable.h"

namespace trainer {

namespace {

constexpr int64_t kWriteBehind = int64_t{8} << 20;

}  // namespace

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
  return Error(ExitCode::io, fmt::format("{}: {}: {}", one_line(path.string()), call, reason));
}

FileDescriptor open_file(const std::filesystem::path& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) throw io_error(path, "open", errno);
  return FileDescriptor(fd);
}

FileDescriptor open_nameless_file(const std::filesystem::path& folder) {
  std::string name = (folder / ".nameless.XXXXXX").string();
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) throw io_error(folder, "making a temporary file", errno);
  FileDescriptor file(fd);
  if (::unlink(name.c_str()) != 0) throw io_error(name, "unlink", errno);
  return file;
}

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {  // another program has made the pipe or the terminal non-blocking
      pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
      if (::poll(&ready, 1, -1) < 0 && errno != EINTR) return errno;
      continue;
    }
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
                              one_line(path.string()), bytes.size(), offset));
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

int64_t file_bytes(int fd, const std::filesystem::path& path) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) throw io_error(path, "fstat", errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ExitCode::data, fmt::format("{}: is not a regular file", one_line(path.string())));
  }
  return status.st_size;
}

NewFile::NewFile(const std::filesystem::path& path, std::filesystem::path shown) : shown_(std::move(shown)) {
  open_in(AT_FDCWD, path.c_str());
}

NewFile::NewFile(const FileDescriptor& directory, const std::string& name, std::filesystem::path shown)
    : shown_(std::move(shown)) {
  open_in(directory.get(), name.c_str());
}

void NewFile::open_in(int directory, const char* name) {
  do {
    fd_ = FileDescriptor(::openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  } while (fd_.get() < 0 && errno == EINTR);
  if (fd_.get() < 0) throw io_error(shown_, "open of a new file", errno);
}

void NewFile::write(std::span<const std::byte> bytes) {
  const int error = write_all(fd_.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (error != 0) throw io_error(shown_, "write", error);
  bytes_ += static_cast<int64_t>(bytes.size());
  if (bytes_ - on_their_way_ < kWriteBehind) return;
  // Advice only: the disk writes while the rest is produced, so close() waits less.
  static_cast<void>(
      ::sync_file_range(fd_.get(), on_their_way_, bytes_ - on_their_way_, SYNC_FILE_RANGE_WRITE));
  on_their_way_ = bytes_;
}

void NewFile::close() {
  if (::fsync(fd_.get()) != 0) throw io_error(shown_, "fsync", errno);
  // Network file systems may report a full disk only here.
  if (::close(fd_.release()) != 0) throw io_error(shown_, "close", errno);
}

void sync_directory(const std::filesystem::path& directory) {
  sync_directory(open_file(directory, O_RDONLY | O_DIRECTORY), directory);
}

void sync_directory(const FileDescriptor& directory, const std::filesystem::path& shown) {
  // EINVAL: the file system cannot synchronise directories, and then has no need to.
  if (::fsync(directory.get()) != 0 && errno != EINVAL) throw io_error(shown, "fsync", errno);
}

std::filesystem::path directory_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

void make_directories(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) return;
  if (std::filesystem::exists(status)) throw io_error(path, "mkdir", ENOTDIR);
  make_directories(directory_of(path));
  std::filesystem::create_directory(path, error);
  if (error) throw io_error(path, "mkdir", error.value());
  sync_directory(directory_of(path));
}

std::filesystem::path program_directory() {
  std::error_code unreadable;
  return std::filesystem::read_symlink("/proc/self/exe", unreadable).parent_path();
}

bool is_there(const std::filesystem::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) throw io_error(path, "stat", errno);
  return false;
}

}  // namespace trainer
