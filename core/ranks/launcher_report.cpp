// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/launcher_report.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <regex>

#include "core/ranks/launcher_folder.h"

namespace trainer {
namespace {

/// The delay after which the end of mpirun is noticed: processes it leaves may hold the pipe open.
constexpr int kPauseMs = 100;

/// Open MPI writes a message in one piece between two rows of dashes. A row alone may come from a rank.
constexpr size_t kLeastDashes = 60, kLongestFrame = 16 * 1024;

bool is_row_of_dashes(const std::string& line) {
  return line.size() > kLeastDashes && line.find_first_not_of('-') == line.size() - 1;
}

/// "mpirun detected that one or more processes exited with non-zero status", "1 process returned a non-zero
/// exit code".
bool is_exit_report(const std::string& frame) {
  return frame.find("non-zero status") != std::string::npos ||
         frame.find("non-zero exit code") != std::string::npos;
}

/// "ORTE has lost communication with a remote daemon", since release 5 PRTE.
bool is_loss_of_host(const std::string& frame) {
  return frame.find("lost communication with a remote daemon") != std::string::npos;
}

/// "mpirun: Forwarding signal 10 to job", a signal of launch_ranks.
bool is_of_own_signal(const std::string& line) {
  return line.find(": Forwarding signal ") != std::string::npos && line.ends_with(" to job\n");
}

void print(const std::string& text) {
  write_all(STDERR_FILENO, text);
}

}  // namespace

LauncherReport::LauncherReport() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw io_error("standard error of mpirun", "pipe", errno);
  reading_ = FileDescriptor(ends[0]);
  writing_ = FileDescriptor(ends[1]);
}

void LauncherReport::begin() {
  writing_.reset();
  thread_ = std::thread([this] { run(); });
}

void LauncherReport::end() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
}

void LauncherReport::run() {
  while (!ends_ && read_some(kPauseMs)) {
  }
  while (read_some(0)) {
  }
  print(frame_ + rest_);
}

/// False at the end of the pipe and, if `timeout_ms` is 0, when nothing is there.
bool LauncherReport::read_some(int timeout_ms) {
  pollfd asked{reading_.get(), POLLIN, 0};
  if (::poll(&asked, 1, timeout_ms) <= 0) {
    // A frame has no pause within it. The start of a line is not held back either.
    print(frame_ + rest_);
    frame_.clear();
    rest_.clear();
    in_frame_ = false;
    return timeout_ms > 0;
  }
  std::array<char, 4096> part{};
  const ssize_t count = ::read(reading_.get(), part.data(), part.size());
  if (count <= 0) return count < 0 && errno == EINTR;
  has_written_ = true;
  rest_.append(part.data(), static_cast<size_t>(count));
  size_t begin = 0;
  for (size_t end = 0; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1)
    take(rest_.substr(begin, end + 1 - begin));
  rest_.erase(0, begin);
  return true;
}

/// `line`: with its end.
void LauncherReport::take(const std::string& line) {
  // A launcher may have put its own words before it.
  if (line.ends_with(kRanksMetLine)) {
    have_joined_ = true;
    return;
  }
  const bool is_row = is_row_of_dashes(line);
  if (!in_frame_ && !is_row) {
    if (!is_of_own_signal(line)) print(line);
    return;
  }
  frame_ += line;
  if (!in_frame_) {
    in_frame_ = true;
  } else if (is_row || frame_.size() > kLongestFrame) {
    close_frame();
  }
}

void LauncherReport::close_frame() {
  // "process rank 1 with PID 4242 on node a exited on signal 9 (Killed)", broken anywhere.
  static const std::regex killed(R"((rank\s+\d+)\s[^:]*exited\s+on\s+signal)");
  std::smatch found;
  if (killed_rank_.empty() && std::regex_search(frame_, found, killed))
    killed_rank_ = "rank " + found[1].str().substr(found[1].str().find_first_of("0123456789"));
  if (is_loss_of_host(frame_)) has_lost_host_ = true;
  if (is_exit_report(frame_)) {
    exit_reports_ += frame_;
  } else {
    print(frame_);
  }
  frame_.clear();
  in_frame_ = false;
}

void LauncherReport::show_exit_reports() const {
  print(exit_reports_);
}

}  // namespace trainer
