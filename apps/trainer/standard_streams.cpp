// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/host/progress.h"

namespace trainer {
namespace {

Error lost_output(const std::FILE* stream, int number) {
  return Error(ExitCode::io, fmt::format("cannot write to the standard {}: {}",
                                         stream == stdout ? "output" : "error stream",
                                         std::generic_category().message(number)));
}

void print_to(std::FILE* stream, std::string_view text) {
  const std::string shown = printable(text);
  const bool is_whole = std::fwrite(shown.data(), 1, shown.size(), stream) == shown.size();
  if (!is_whole && errno != EPIPE) throw lost_output(stream, errno);
}

}  // namespace

void reserve_standard_streams() {
  // open() returns the lowest free number, so all below it are taken. Each is opened for the wrong direction.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    static_cast<void>(::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

void print_to_output(std::string_view text) {
  print_to(stdout, text);
}

bool write_at_once(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error != 0 && error != EPIPE) throw io_error("the standard output", "write", error);
  return error == 0;
}

void print_warning(std::string_view text) {
  print_to(stderr, fmt::format("warning: {}\n", text));
}

void print_remark(std::string_view text) {
  print_to(stderr, fmt::format("{}\n", text));
}

std::optional<size_t> output_width() {
  constexpr size_t kUsual = 80, kLeast = 30, kMost = 500;
  if (!Progress::for_terminal(STDOUT_FILENO)) return std::nullopt;
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return std::clamp<size_t>(size.ws_col, kLeast, kMost);
}

void print_note(const OutputFile& about, std::string_view text) {
  print_to(about.is_standard_output() ? stderr : stdout, fmt::format("{}\n", text));
}

void print_error(std::string_view text) {
  // Located problems say "error:" themselves.
  const bool located = text.find(": error: ") != std::string_view::npos || text.starts_with("error: ");
  const std::string line = fmt::format("{}{}\n", located ? "" : "trainer: error: ", printable(text));
  static_cast<void>(write_all(STDERR_FILENO, line));  // if this fails, no message is possible
}

int finish_output(int code) {
  const bool is_reported = code == static_cast<int>(ExitCode::io) && std::ferror(stdout) != 0;
  if (is_reported || std::fflush(stdout) == 0 || errno == EPIPE) return code;
  print_error(lost_output(stdout, errno).what());
  return code == 0 ? static_cast<int>(ExitCode::io) : code;
}

}  // namespace trainer
