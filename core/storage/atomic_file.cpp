// SPDX-License-Identifier: Apache-2.0
#include "core/storage/atomic_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/storage/file.h"

namespace trainer {
namespace {

std::filesystem::path directory_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// A new file beside its destination (a rename is atomic only within a file system); gone unless committed.
class Temporary {
 public:
  explicit Temporary(const std::filesystem::path& destination) : destination_(destination) {
    for (int attempt = 0;; ++attempt) {
      const std::string name =
          fmt::format(".{}.tmp-{}-{}", destination.filename().string(), ::getpid(), attempt);
      const std::filesystem::path path = directory_of(destination) / name;
      fd_ = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (fd_.get() >= 0) {
        path_ = path;
        return;
      }
      // The name is taken where a process of the same number was killed before it could tidy up.
      if (errno != EEXIST && errno != EINTR) throw io_error(destination, "open of a temporary file", errno);
    }
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    const int error = write_all(fd_.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (error != 0) throw io_error(destination_, "write", error);
  }

  void commit() {
    if (::fsync(fd_.get()) != 0) throw io_error(destination_, "fsync", errno);
    // Network file systems may report a full disk only here.
    if (::close(fd_.release()) != 0) throw io_error(destination_, "close", errno);
    if (std::rename(path_.c_str(), destination_.c_str()) != 0) throw io_error(destination_, "rename", errno);
    path_.clear();
    const FileDescriptor directory = open_file(directory_of(destination_), O_RDONLY | O_DIRECTORY);
    // EINVAL: the file system cannot synchronise directories, and then has no need to.
    if (::fsync(directory.get()) != 0 && errno != EINVAL) {
      throw io_error(destination_, "fsync of its directory", errno);
    }
  }

 private:
  std::filesystem::path destination_, path_;
  FileDescriptor fd_;
};

}  // namespace

void write_atomically(const std::filesystem::path& path,
                      const std::function<void(const ByteSink&)>& produce) {
  Temporary file(path);
  produce([&file](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  write_atomically(path, [text](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
}

}  // namespace trainer
