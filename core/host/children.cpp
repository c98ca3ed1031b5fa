// SPDX-License-Identifier: Apache-2.0
#include "core/host/children.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/error.h"

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

/// A child with a higher score is ended first when memory runs out.
void raise_oom_score(int score) {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  char text[16];
  const auto size = static_cast<size_t>(std::snprintf(text, sizeof text, "%d", score));
  [[maybe_unused]] const ssize_t written = ::write(file, text, size);
  ::close(file);
}

/// Runs in the child and does not return. The child leads its own session, so the terminal's signals do not
/// reach it.
[[noreturn]] void become(const ChildStart& child, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(0);  // it was killed before
  ::setsid();
  if (child.output >= 0) ::dup2(child.output, STDOUT_FILENO);
  if (child.errors >= 0) ::dup2(child.errors, STDERR_FILENO);
  for (const int file : child.inherited) ::fcntl(file, F_SETFD, 0);
  if (child.oom_score > 0) raise_oom_score(child.oom_score);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // What says that this process is alone must not reach the ranks.
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) ::unsetenv(name);
  for (const auto& [name, value] : child.variables) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : child.line) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(kProgramNotFound);
}

}  // namespace

std::string signal_text(int signal) {
  const char* text = ::sigdescr_np(signal);
  return fmt::format("signal {}{}", signal, text == nullptr ? "" : fmt::format(" ({})", text));
}

Children::Children(int at_once) : watched_(watched_signals()), at_once_(at_once) {
  ::signal(SIGCHLD, SIG_DFL);  // if it is ignored, waitpid() reports no exit status
  ::sigprocmask(SIG_BLOCK, &watched_, &before_);
}

Children::~Children() {
  for (const Child& child : children_) {
    if (!child.has_ended) ::kill(child.process, SIGKILL);
  }
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

size_t Children::start(const ChildStart& child) {
  const pid_t self = ::getpid(), process = ::fork();
  if (process == 0) become(child, self);
  if (process < 0)
    throw Error(ExitCode::out_of_memory, fmt::format("no process can be started: {}", std::strerror(errno)));
  children_.push_back({.process = process});
  if (child.deadline) children_.back().deadline = Clock::now() + *child.deadline;
  return children_.size() - 1;
}

std::optional<ChildEnd> Children::await_any(std::chrono::milliseconds most) {
  // A signal to all processes ends children too: it must be known before their ends are judged.
  while (handle_signals(std::chrono::milliseconds(0))) {
  }
  if (std::optional<ChildEnd> end = reap()) return end;
  kill_late();
  handle_signals(most);
  return reap();
}

std::vector<int> Children::await_all(std::chrono::seconds timeout) {
  std::vector<int> statuses(children_.size());
  std::optional<Clock::time_point> end;
  while (!std::ranges::all_of(children_, &Child::has_ended)) {
    if (const std::optional<ChildEnd> one = await_any(std::chrono::seconds(1))) {
      statuses[one->child] = one->status;
      if (one->status != 0 && !end) end = Clock::now() + timeout;
    }
    if (end && Clock::now() > *end) send_signal(SIGKILL);
  }
  return statuses;
}

std::optional<ChildEnd> Children::reap() {
  for (size_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    int status = 0;
    if (child.has_ended || ::waitpid(child.process, &status, WNOHANG) != child.process) continue;
    child.has_ended = true;
    if (WIFSIGNALED(status) && !has_killed_ && !child.was_late && !killed_) killed_ = i;
    return ChildEnd{.child = i, .status = status, .was_late = child.was_late};
  }
  return std::nullopt;
}

void Children::kill_late() {
  const Clock::time_point now = Clock::now();
  for (Child& child : children_) {
    if (child.has_ended || !child.deadline || now < *child.deadline) continue;
    child.was_late = true;
    ::kill(child.process, SIGKILL);
  }
}

/// Waits for the next signal, or for the end of a child. Returns whether there was one.
bool Children::handle_signals(std::chrono::milliseconds most) {
  const timespec wait{.tv_sec = most.count() / 1000, .tv_nsec = most.count() % 1000 * 1'000'000};
  const int signal = ::sigtimedwait(&watched_, nullptr, &wait);
  if (signal > 0 && signal != SIGCHLD) forward(signal);
  return signal > 0;
}

void Children::forward(int signal) {
  were_asked_ = true;
  if (signal == SIGINT) ++interrupts_;
  send_signal(interrupts_ > 1 ? at_once_ : SIGUSR1);
}

void Children::send_signal(int signal) {
  has_killed_ = has_killed_ || signal == SIGKILL;
  for (const Child& child : children_) {
    if (!child.has_ended) ::kill(child.process, signal);
  }
}

}  // namespace trainer
