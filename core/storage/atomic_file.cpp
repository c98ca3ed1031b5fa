// SPDX-License-Identifier: Apache-2.0
#include "core/storage/atomic_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "core/base/file.h"

namespace trainer {
namespace {

constexpr std::string_view kTemporary = ".tmp-";

FileDescriptor open_directory_of(const std::filesystem::path& file) {
  FileDescriptor directory(::open(directory_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) throw io_error(file, "open of a new file", errno);
  return directory;
}

/// An unused name beside a file (a rename is atomic only within a file system). A name may be in use if a
/// process of the same number was killed before it could clean up.
std::string free_name(const FileDescriptor& directory, const std::string& of) {
  for (int attempt = 0;; ++attempt) {
    std::string name = fmt::format(".{}{}{}-{}", of, kTemporary, ::getpid(), attempt);
    struct stat status = {};
    if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return name;
  }
}

/// Gone unless committed. The directory may be moved meanwhile, or another one take its place: the file is in
/// the one that was there at first.
class Temporary {
 public:
  Temporary(const FileDescriptor& directory, const std::filesystem::path& destination)
      : destination_(destination),
        directory_(directory),
        last_(destination.filename().string()),
        name_(free_name(directory_, last_)),
        file_(directory_, name_, destination) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!name_.empty()) ::unlinkat(directory_.get(), name_.c_str(), 0);
  }

  void write(std::span<const std::byte> bytes) { file_.write(bytes); }

  void commit() {
    file_.close();
    if (::renameat(directory_.get(), name_.c_str(), directory_.get(), last_.c_str()) != 0)
      throw io_error(destination_, "rename", errno);
    name_.clear();
    sync_directory(directory_, directory_of(destination_));
  }

 private:
  std::filesystem::path destination_;
  const FileDescriptor& directory_;
  std::string last_, name_;  ///< of the file in the end, and until then
  NewFile file_;
};

}  // namespace

void write_atomically(const std::filesystem::path& path,
                      const std::function<void(const ByteSink&)>& produce) {
  const FileDescriptor directory = open_directory_of(path);
  Temporary file(directory, path);
  produce([&file](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

bool is_unfinished(std::string_view name) {
  const size_t end = name.rfind(kTemporary);
  if (!name.starts_with('.') || end == std::string_view::npos || end < 2) return false;
  const std::string_view numbers = name.substr(end + kTemporary.size());  // of a process and an attempt
  const size_t dash = numbers.find('-');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return dash != std::string_view::npos && is_number(numbers.substr(0, dash)) &&
         is_number(numbers.substr(dash + 1));
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  write_atomically(path, [text](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
}

void write_atomically(const FileDescriptor& directory, const std::filesystem::path& path,
                      std::string_view text) {
  Temporary file(directory, path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace trainer
