// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace trainer {

/// Owns an open file descriptor, or none (-1).
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

/// "path: call: reason", exit 74; the reason is that of `number`, an errno.
Error io_error(const std::filesystem::path& path, std::string_view call, int number);

/// open(2) with O_CLOEXEC added; throws Error (exit 74) if it fails.
FileDescriptor open_file(const std::filesystem::path& path, int flags);

/// A new file in a folder, without a name: it disappears when it is neither open nor mapped. Throws Error
/// (exit 74).
FileDescriptor open_nameless_file(const std::filesystem::path& folder);

/// Writes every byte, however often that takes. Returns 0, or the errno of the call that failed.
int write_all(int fd, std::string_view bytes);

/// Reads `bytes.size()` bytes at `offset`. Throws Error: exit 74 if reading fails, 65 if the file ends
/// first.
void read_exactly(int fd, const std::filesystem::path& path, int64_t offset, std::span<std::byte> bytes);

/// Bytes of a regular file. Throws Error: exit 74 if there is none, 65 if it is something else.
int64_t file_bytes(int fd, const std::filesystem::path& path);

/// A file that is being written, durable once closed.
class NewFile {
 public:
  /// Throws Error (exit 74) if the file exists already, or cannot be made. Messages call it `shown`.
  NewFile(const std::filesystem::path& path, std::filesystem::path shown);
  explicit NewFile(const std::filesystem::path& path) : NewFile(path, path) {}
  /// In an open directory, wherever that is by now.
  NewFile(const FileDescriptor& directory, const std::string& name, std::filesystem::path shown);

  void write(std::span<const std::byte> bytes);
  /// Returns when the bytes are on the disk. Throws Error (exit 74).
  void close();

 private:
  void open_in(int directory, const char* name);

  std::filesystem::path shown_;
  FileDescriptor fd_;
  int64_t bytes_ = 0, on_their_way_ = 0;  ///< written, and of these those that the disk was given
};

/// Makes durable which files a directory holds. Throws Error (exit 74).
void sync_directory(const std::filesystem::path& directory);
void sync_directory(const FileDescriptor& directory, const std::filesystem::path& shown);

/// The directory that a file is in, or is to be in.
std::filesystem::path directory_of(const std::filesystem::path& path);

/// Makes a directory and those above it if they are missing, durably. Throws Error (exit 74).
void make_directories(const std::filesystem::path& path);

/// Where the running program is; empty if the system does not say.
std::filesystem::path program_directory();

/// Whether the path exists. Throws Error (exit 74) if that cannot be determined.
bool is_there(const std::filesystem::path& path);

}  // namespace trainer
