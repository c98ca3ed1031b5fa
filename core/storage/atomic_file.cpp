// SPDX-License-Identifier: Apache-2.0
#include "core/storage/atomic_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/base/file.h"

namespace trainer {
namespace {

constexpr std::string_view kTemporary = ".tmp-";

/// An unused name beside `destination` (a rename is atomic only within a file system). A name may be in use
/// if a process of the same number was killed before it could clean up.
std::filesystem::path free_name(const std::filesystem::path& destination) {
  for (int attempt = 0;; ++attempt) {
    const std::string name =
        fmt::format(".{}{}{}-{}", destination.filename().string(), kTemporary, ::getpid(), attempt);
    std::filesystem::path path = directory_of(destination) / name;
    std::error_code ignored;
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return path;
  }
}

/// Gone unless committed.
class Temporary {
 public:
  explicit Temporary(const std::filesystem::path& destination)
      : destination_(destination), path_(free_name(destination)), file_(path_, destination) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  void write(std::span<const std::byte> bytes) { file_.write(bytes); }

  void commit() {
    file_.close();
    if (std::rename(path_.c_str(), destination_.c_str()) != 0) throw io_error(destination_, "rename", errno);
    path_.clear();
    sync_directory(directory_of(destination_));
  }

 private:
  std::filesystem::path destination_, path_;
  NewFile file_;
};

}  // namespace

void write_atomically(const std::filesystem::path& path,
                      const std::function<void(const ByteSink&)>& produce) {
  Temporary file(path);
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

}  // namespace trainer
