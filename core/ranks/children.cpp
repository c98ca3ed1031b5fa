// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/children.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "core/base/directory.h"
#include "core/base/error.h"
#include "core/ranks/launch.h"

namespace trainer {
namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGPWR, SIGALRM, SIGCHLD}) {
    struct sigaction now {};
    const bool is_ignored = ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    if (!is_ignored) sigaddset(&set, signal);  // under nohup
  }
  return set;
}

/// Runs in the child and does not return. The child leads its own session, so the terminal's signals do not
/// reach it.
[[noreturn]] void become(const std::vector<std::string>& line, const Children::Variables& variables,
                         int errors, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(0);  // it was killed before
  ::setsid();
  if (errors >= 0) ::dup2(errors, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // What says that this process is alone must not reach the ranks.
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) ::unsetenv(name);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : line) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(kProgramNotFound);
}

/// Whether a process exists and has not ended. A zombie has ended.
bool lives(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.size() > name_end + 2 && text[name_end + 2] != 'Z';
}

/// The children of a process. Empty if the system does not list them.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code gone;
  for (const DirectoryEntry& thread : directory_entries(fmt::format("/proc/{}/task", process), gone)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

}  // namespace

Children::Children(int at_once) : watched_(watched_signals()), at_once_(at_once) {
  ::sigprocmask(SIG_BLOCK, &watched_, &before_);
}

Children::~Children() {
  for (const Child& child : children_) {
    if (!child.status) ::kill(child.process, SIGKILL);
  }
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void Children::start(const std::vector<std::string>& line, const Variables& variables, int errors) {
  const pid_t self = ::getpid(), child = ::fork();
  if (child == 0) become(line, variables, errors, self);
  if (child < 0)
    throw Error(ExitCode::out_of_memory, fmt::format("no process can be started: {}", std::strerror(errno)));
  children_.push_back({child, std::nullopt});
}

std::vector<int> Children::await(std::chrono::seconds timeout) {
  std::optional<Clock::time_point> end;
  while (!reap()) {
    if (!end && has_failed()) end = Clock::now() + timeout;
    if (end && Clock::now() > *end) send_signal(SIGKILL);
    handle_signals(std::chrono::seconds(1));
  }
  std::vector<int> statuses;
  for (const Child& child : children_) statuses.push_back(*child.status);
  return statuses;
}

std::variant<int, Children::Late> Children::await_launcher(int64_t processes, const Timeouts& timeout) {
  // Until all processes have been seen. Some may be short-lived helpers, and none may be on this host.
  constexpr std::chrono::milliseconds kBriefly(50), kLong(1000);
  constexpr std::chrono::seconds kStart(10);
  std::set<pid_t> seen;
  const Clock::time_point start = Clock::now();
  Clock::time_point some = start, all = start;  // when some of the processes, and all, were last seen
  while (!reap()) {
    const std::vector<pid_t> found = children_of(children_.front().process);
    seen.insert(found.begin(), found.end());
    const int64_t living = std::ranges::count_if(found, lives);
    const bool had_all = std::ssize(seen) >= processes;
    if (seen.empty() || living > 0) some = Clock::now();
    if (!had_all || living >= processes) all = Clock::now();
    if (Clock::now() - some > timeout.with_launcher) return Late::launcher;
    if (Clock::now() - all > timeout.with_others) {
      for (const pid_t process : found) ::kill(process, SIGKILL);
      return Late::others;
    }
    handle_signals(had_all || (!seen.empty() && Clock::now() - start > kStart) ? kLong : kBriefly);
  }
  return *children_.front().status;
}

/// Whether all have ended.
bool Children::reap() {
  bool all = true;
  for (Child& child : children_) {
    int status = 0;
    if (!child.status && ::waitpid(child.process, &status, WNOHANG) == child.process) {
      child.status = status;
      if (WIFSIGNALED(status) && !has_killed_ && !killed_)
        killed_ = static_cast<size_t>(&child - children_.data());
    }
    all = all && child.status;
  }
  return all;
}

bool Children::has_failed() const {
  return std::ranges::any_of(children_,
                             [](const Child& child) { return child.status && *child.status != 0; });
}

/// Waits for the next signal, or for the end of a child.
void Children::handle_signals(std::chrono::milliseconds most) {
  const timespec wait{.tv_sec = most.count() / 1000, .tv_nsec = most.count() % 1000 * 1'000'000};
  if (const int signal = ::sigtimedwait(&watched_, nullptr, &wait); signal > 0 && signal != SIGCHLD)
    forward(signal);
}

void Children::forward(int signal) {
  were_asked_ = true;
  if (signal == SIGINT) ++interrupts_;
  send_signal(interrupts_ > 1 ? at_once_ : SIGUSR1);
}

void Children::send_signal(int signal) {
  has_killed_ = has_killed_ || signal == SIGKILL;
  for (const Child& child : children_) {
    if (!child.status) ::kill(child.process, signal);
  }
}

}  // namespace trainer
