// SPDX-License-Identifier: Apache-2.0
#include "core/host/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "core/base/file.h"

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kMostBytes = 64 * 1024;
constexpr milliseconds kPause{5};

int milliseconds_until(Clock::time_point end) {
  return static_cast<int>(std::max<int64_t>(std::chrono::ceil<milliseconds>(end - Clock::now()).count(), 0));
}

/// A process in a group of its own, killed and waited for when this goes out of scope.
class Child {
 public:
  Child() = default;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  /// Its standard output is `output`. Returns 0 or an errno.
  int start(const std::vector<std::string>& arguments, int output) {
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    const int problem = ::posix_spawnp(&pid_, argv[0], &actions, &attributes, argv.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    if (problem != 0) pid_ = -1;
    return problem;
  }

  /// Its status once it has ended; false if it has not by `end`.
  bool wait(Clock::time_point end, int& status) {
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(kPause);
    }
    pid_ = -1;
    return true;
  }

 private:
  pid_t pid_ = -1;
};

/// Until the writers have closed it; false if they have not by `end`.
bool read_all(int fd, Clock::time_point end, std::string& text) {
  std::array<char, 4096> bytes;
  while (true) {
    pollfd waited{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waited, 1, milliseconds_until(end));
    if (ready == 0) return false;
    const ssize_t count = ready < 0 ? -1 : ::read(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    text.append(bytes.data(), std::min(static_cast<size_t>(count), kMostBytes - text.size()));
    if (Clock::now() >= end) return false;
  }
}

std::string ending(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

CommandOutput run_command(const std::vector<std::string>& arguments, std::chrono::milliseconds patience) {
  const std::string& name = arguments.at(0);
  const auto end = Clock::now() + patience;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {"", fmt::format("{}: {}", name, std::strerror(errno))};
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  Child child;
  const int problem = child.start(arguments, writer.get());
  writer.reset();
  if (problem != 0) return {"", fmt::format("{}: {}", name, std::strerror(problem))};
  CommandOutput result;
  int status = 0;
  if (!read_all(reader.get(), end, result.text) || !child.wait(end, status))
    result.problem = fmt::format("{} did not end within {:g} s", name, patience.count() / 1000.0);
  else if (status != 0)
    result.problem = fmt::format("{} {}", name, ending(status));
  return result;
}

}  // namespace trainer
