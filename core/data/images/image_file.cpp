// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/images/decode.h"

namespace trainer {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

class OpenFile {
 public:
  // Without O_NONBLOCK, open would wait for a pipe that has just replaced the file.
  explicit OpenFile(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::string& path) {
  const int error = errno;
  const std::string reason = fmt::format("cannot be read: {}", std::strerror(error));
  const bool is_files_fault = error == ENOENT || error == EACCES || error == ELOOP || error == EISDIR ||
                              error == ENOTDIR || error == ENAMETOOLONG;
  if (is_files_fault) throw DecodeError(reason);
  throw Error(ExitCode::io, one_line(path) + ": " + reason);
}

void require_regular(const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  const char* kind = S_ISSOCK(status.st_mode)   ? "a socket"
                     : S_ISFIFO(status.st_mode) ? "a pipe"
                     : S_ISDIR(status.st_mode)  ? "a folder"
                                                : "a device";
  throw DecodeError(fmt::format("{}, not a file", kind));
}

}  // namespace

void read_image_file(const std::string& path, std::vector<uint8_t>& bytes) {
  struct stat status {};
  // Sockets cannot be opened, and opening a device may do something.
  if (::stat(path.c_str(), &status) != 0) fail(path);
  require_regular(status);
  const OpenFile file(path);
  if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0) fail(path);
  require_regular(status);
  if (status.st_size > kMaxFileBytes) {
    throw DecodeError(fmt::format("{} bytes, more than any image needs", status.st_size));
  }
  bytes.resize(static_cast<size_t>(status.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.fd(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
}

}  // namespace trainer
