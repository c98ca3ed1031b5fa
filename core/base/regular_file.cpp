// SPDX-License-Identifier: Apache-2.0
#include "core/base/regular_file.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "core/base/printable.h"

namespace trainer {
namespace {

constexpr size_t kMostLineBytes = size_t{64} << 20;
using Piece = std::array<char, size_t{64} << 10>;

const char* kind_of(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void require_regular(const std::filesystem::path& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  const char* remedy = S_ISLNK(status.st_mode) ? "; names in a run's directory may not be links: replace it "
                                                 "by the file, or remove it"
                                               : "";
  throw Error(ExitCode::data, fmt::format("{}: expected a regular file, found {}{}", one_line(path.string()),
                                          kind_of(status.st_mode), remedy));
}

/// False if the path does not exist, or the system does not return its type.
bool look(const std::filesystem::path& path, Links links, struct stat& status) {
  return (links == Links::refuse ? ::lstat(path.c_str(), &status) : ::stat(path.c_str(), &status)) == 0;
}

bool is_absent(const std::filesystem::path& path, Links links) {
  struct stat status = {};
  return !look(path, links, status) && (errno == ENOENT || errno == ENOTDIR);
}

/// Bytes that were read; 0 at the end.
size_t read_piece(int fd, const std::filesystem::path& path, Piece& piece) {
  ssize_t count = -1;
  do {
    count = ::read(fd, piece.data(), piece.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw io_error(path, "read", errno);
  return static_cast<size_t>(count);
}

/// A file may grow while it is read, and those of /proc have no size.
std::string read_all(int fd, const std::filesystem::path& path, int64_t most) {
  std::string text;
  Piece piece;
  while (const size_t count = read_piece(fd, path, piece)) {
    text.append(piece.data(), count);
    if (static_cast<int64_t>(text.size()) > most) {
      throw Error(ExitCode::data, fmt::format("{}: is larger than {} bytes, the limit for files of this kind",
                                              one_line(path.string()), most));
    }
  }
  return text;
}

}  // namespace

void require_regular(const std::filesystem::path& path, Links links) {
  struct stat status = {};
  if (look(path, links, status)) require_regular(path, status);
}

FileDescriptor open_regular(const std::filesystem::path& path, int flags, Links links) {
  // Opening a device may do something, and a socket cannot be opened.
  require_regular(path, links);
  // Something else may have taken its place since then.
  FileDescriptor file =
      open_file(path, flags | O_NONBLOCK | O_NOCTTY | (links == Links::refuse ? O_NOFOLLOW : 0));
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) throw io_error(path, "fstat", errno);
  require_regular(path, status);
  return file;
}

std::optional<std::string> read_text(const std::filesystem::path& path, Links links, int64_t most) {
  if (is_absent(path, links)) return std::nullopt;
  return read_all(open_regular(path, O_RDONLY, links).get(), path, most);
}

std::string read_input(const std::filesystem::path& path, int64_t most) {
  return read_all(open_file(path, O_RDONLY | O_NOCTTY).get(), path, most);
}

bool read_lines(const std::filesystem::path& path, Links links,
                const std::function<void(const std::string& line, bool is_ended)>& take) {
  if (is_absent(path, links)) return false;
  const FileDescriptor file = open_regular(path, O_RDONLY, links);
  std::string line;
  int64_t number = 1;
  Piece piece;
  while (const size_t count = read_piece(file.get(), path, piece)) {
    for (std::string_view left(piece.data(), count); !left.empty();) {
      const size_t end = std::min(left.find('\n'), left.size());
      line.append(left, 0, end);
      if (line.size() > kMostLineBytes) {
        throw Error(ExitCode::data, fmt::format("{}:{}: a line of more than {} bytes",
                                                one_line(path.string()), number, kMostLineBytes));
      }
      if (end == left.size()) break;
      take(line, true);
      line.clear();
      ++number;
      left.remove_prefix(end + 1);
    }
  }
  if (!line.empty()) take(line, false);
  return true;
}

}  // namespace trainer
