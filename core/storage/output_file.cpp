// SPDX-License-Identifier: Apache-2.0
#include "core/storage/output_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "core/base/file.h"
#include "core/base/printable.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // the kernel's limit

/// N of a path to this process's /proc/self/fd/N, else -1.
int own_descriptor(const fs::path& path) {
  std::error_code error;
  if (fs::canonical(directory_of(path), error) != fs::canonical("/proc/self/fd", error) || error) return -1;
  const std::string name = path.filename().string();
  int number = -1;
  const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), number);
  return status == std::errc{} && end == name.data() + name.size() ? number : -1;
}

[[noreturn]] void refuse_output(const fs::path& path, const std::string& what) {
  throw Error(ExitCode::usage,
              fmt::format("{}: {}; name another file to write", one_line(path.string()), what));
}

bool is_same_file(const struct stat& output, const fs::path& input) {
  struct stat status = {};
  return ::stat(input.c_str(), &status) == 0 && status.st_dev == output.st_dev &&
         status.st_ino == output.st_ino;
}

}  // namespace

OutputFile::OutputFile(const fs::path& path, const std::vector<fs::path>& inputs)
    : shown_(path), path_(path) {
  if (!path.has_filename()) refuse_output(path, "names no file");
  follow_links();
  if (descriptor_ >= 0) return;
  struct stat status = {};
  if (::stat(path_.c_str(), &status) != 0) {
    if (errno != ENOENT) throw io_error(path, "stat", errno);
    return;  // a new file
  }
  if (S_ISDIR(status.st_mode)) refuse_output(path, "is a directory");
  is_stream_ = S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode);
  if (is_stream_) return;
  if (!S_ISREG(status.st_mode)) refuse_output(path, "is neither a file nor a pipe nor a character device");
  const auto input =
      std::ranges::find_if(inputs, [&](const fs::path& each) { return is_same_file(status, each); });
  if (input != inputs.end())
    refuse_output(path, fmt::format("is an input of this command ({})", input->string()));
}

void OutputFile::follow_links() {
  std::error_code ignored;
  for (int links = 0;; ++links) {
    descriptor_ = own_descriptor(path_);
    if (descriptor_ >= 0 || !fs::is_symlink(fs::symlink_status(path_, ignored))) return;
    if (links == kMostLinks) throw io_error(shown_, "open", ELOOP);
    path_ = directory_of(path_) / fs::read_symlink(path_);
  }
}

bool OutputFile::is_standard_output() const {
  return descriptor_ == STDOUT_FILENO;
}

void OutputFile::write(const std::function<void(const ByteSink&)>& produce) const {
  if (descriptor_ >= 0 || is_stream_) return write_through(produce);
  write_atomically(path_, produce);
}

void OutputFile::write_through(const std::function<void(const ByteSink&)>& produce) const {
  FileDescriptor opened;
  if (descriptor_ < 0) opened = open_file(path_, O_WRONLY | O_NOCTTY);
  const int fd = descriptor_ < 0 ? opened.get() : descriptor_;
  produce([&](std::span<const std::byte> bytes) {
    const int error = write_all(fd, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (error != 0) throw io_error(shown_, "write", error);
  });
}

}  // namespace trainer
