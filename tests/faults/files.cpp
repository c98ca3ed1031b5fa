// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "tests/faults/faults.h"

// The calls that concern files.

namespace {

using faults::Faults;
using faults::next;

int failed(int error) {
  errno = error;
  return -1;
}

/// A path as the program named it, or below the directory that `directory` was opened with.
std::string full_path(int directory, const char* path) {
  if (directory == AT_FDCWD || path[0] == '/') return path;
  return Faults::instance().path_of(directory) + "/" + path;
}

template <class Open>
int open_with(const std::string& path, int flags, Open open) {
  const int error = Faults::instance().before("open", path, std::to_string(flags));
  if (error > 0) return failed(error);
  const int fd = open();
  Faults::instance().opened(fd, path);
  return fd;
}

mode_t mode_of(int flags, va_list list) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
}

/// Calls that either happen or fail.
template <class Call>
int call_unless_failed(const char* name, const std::string& path, const std::string& detail, Call call) {
  const int error = Faults::instance().before(name, path, detail);
  return error > 0 ? failed(error) : call();
}

int open_by_name(const char* symbol, const char* path, int flags, mode_t mode) {
  return open_with(path, flags, [&] { return next<int(const char*, int, ...)>(symbol)(path, flags, mode); });
}

int open_below(const char* symbol, int directory, const char* path, int flags, mode_t mode) {
  return open_with(full_path(directory, path), flags, [&] {
    return next<int(int, const char*, int, ...)>(symbol)(directory, path, flags, mode);
  });
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_by_name("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_by_name("open64", path, flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_below("openat", directory, path, flags, mode);
}

int openat64(int directory, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_below("openat64", directory, path, flags, mode);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  Faults& faults = Faults::instance();
  const int error = faults.before("write", faults.path_of(fd), std::to_string(count), bytes, count);
  if (error > 0) return failed(error);
  return real(fd, bytes, error == faults::kHalf && count > 1 ? count / 2 : count);
}

ssize_t pread(int fd, void* bytes, size_t count, off_t offset) {
  static auto* const real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  Faults& faults = Faults::instance();
  const int error = faults.before("pread", faults.path_of(fd), std::to_string(count));
  if (error > 0) return failed(error);
  const ssize_t read = real(fd, bytes, error == faults::kHalf && count > 1 ? count / 2 : count, offset);
  if (error == faults::kFlip && read > 0) *static_cast<unsigned char*>(bytes) ^= 1;
  return read;
}

ssize_t read(int fd, void* bytes, size_t count) {
  static auto* const real = next<ssize_t(int, void*, size_t)>("read");
  Faults& faults = Faults::instance();
  const int error = faults.before("read", faults.path_of(fd), std::to_string(count));
  if (error > 0) return failed(error);
  return real(fd, bytes, error < 0 && count > 1 ? count / 2 : count);
}

/// Streams open and read by internal functions of the C library.
FILE* fopen(const char* path, const char* mode) {
  FILE* const file = next<FILE*(const char*, const char*)>("fopen")(path, mode);
  if (file != nullptr) Faults::instance().opened(fileno(file), path);
  return file;
}

size_t fread(void* bytes, size_t size, size_t count, FILE* file) {
  static auto* const real = next<size_t(void*, size_t, size_t, FILE*)>("fread");
  Faults& faults = Faults::instance();
  const int error = faults.before("fread", faults.path_of(fileno(file)), std::to_string(size * count));
  if (error <= 0) return real(bytes, size, count, file);
  file->_flags |= _IO_ERR_SEEN;
  errno = error;
  return 0;
}

DIR* opendir(const char* path) {
  DIR* const directory = next<DIR*(const char*)>("opendir")(path);
  if (directory != nullptr) Faults::instance().opened(dirfd(directory), path);
  return directory;
}

dirent* readdir(DIR* directory) {
  static auto* const real = next<dirent*(DIR*)>("readdir");
  const int error = Faults::instance().before("readdir", Faults::instance().path_of(dirfd(directory)), "");
  if (error > 0) return failed(error), nullptr;
  return real(directory);
}

/// Mapped bytes are read later.
void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  static auto* const real = next<void*(void*, size_t, int, int, int, off_t)>("mmap");
  if (fd >= 0) {
    const int error =
        Faults::instance().before("mmap", Faults::instance().path_of(fd), std::to_string(length));
    if (error > 0) return failed(error), MAP_FAILED;
  }
  return real(address, length, protection, flags, fd, offset);
}

int fsync(int fd) {
  static auto* const real = next<int(int)>("fsync");
  return call_unless_failed("fsync", Faults::instance().path_of(fd), "", [&] { return real(fd); });
}

int fdatasync(int fd) {
  static auto* const real = next<int(int)>("fdatasync");
  return call_unless_failed("fdatasync", Faults::instance().path_of(fd), "", [&] { return real(fd); });
}

/// Linux closes the descriptor even if it reports a failure.
int close(int fd) {
  static auto* const real = next<int(int)>("close");
  Faults& faults = Faults::instance();
  const int error = faults.before("close", faults.path_of(fd), "");
  faults.opened(fd, "");
  const int result = real(fd);
  return error > 0 ? failed(error) : result;
}

int ftruncate(int fd, off_t length) noexcept {
  return call_unless_failed("ftruncate", Faults::instance().path_of(fd), std::to_string(length),
                            [&] { return next<int(int, off_t)>("ftruncate")(fd, length); });
}

int rename(const char* from, const char* to) noexcept {
  return call_unless_failed("rename", from, to,
                            [&] { return next<int(const char*, const char*)>("rename")(from, to); });
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  return call_unless_failed("rename", full_path(from_directory, from), full_path(to_directory, to), [&] {
    return next<int(int, const char*, int, const char*)>("renameat")(from_directory, from, to_directory, to);
  });
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) noexcept {
  return call_unless_failed("exchange", full_path(from_directory, from), full_path(to_directory, to), [&] {
    return next<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_directory, from,
                                                                                to_directory, to, flags);
  });
}

int mkdir(const char* path, mode_t mode) noexcept {
  return call_unless_failed("mkdir", path, "",
                            [&] { return next<int(const char*, mode_t)>("mkdir")(path, mode); });
}

int unlink(const char* path) noexcept {
  return call_unless_failed("unlink", path, "", [&] { return next<int(const char*)>("unlink")(path); });
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  return call_unless_failed(
      (flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", full_path(directory, path), "",
      [&] { return next<int(int, const char*, int)>("unlinkat")(directory, path, flags); });
}

int rmdir(const char* path) noexcept {
  return call_unless_failed("rmdir", path, "", [&] { return next<int(const char*)>("rmdir")(path); });
}

}  // extern "C"
