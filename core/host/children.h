// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainer {

/// The exit code of a process whose program was not found, as in a shell.
constexpr int kProgramNotFound = 127;

/// How a child process is started.
struct ChildStart {
  using Variables = std::vector<std::pair<std::string, std::string>>;
  std::vector<std::string> line;  ///< its program and arguments
  Variables variables{};          ///< added to this process's environment
  int output = -1, errors = -1;   ///< its standard output and error; -1: those of this process
  /// It is killed when so much time has passed.
  std::optional<std::chrono::seconds> deadline{};
  /// Without memory the kernel ends it before processes with less; 0 to 1000.
  int oom_score = 0;
  std::vector<int> inherited{};  ///< open files that it keeps, such as a lock
};

/// A child process that has ended.
struct ChildEnd {
  size_t child;
  int status;  ///< of waitpid
  bool was_late;
};

/// "signal 9 (Killed)"
std::string signal_text(int signal);

/// The child processes that this one waits for. Meanwhile signals are forwarded to them alone.
class Children {
 public:
  /// `at_once`: the signal that ends a child immediately.
  explicit Children(int at_once);
  /// Kills those that have not ended.
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  /// Returns its number, from 0. Throws Error (exit 71) if the system cannot start it.
  size_t start(const ChildStart& child);

  /// A child that has ended and was not returned before, or nothing after `most` or a signal.
  std::optional<ChildEnd> await_any(std::chrono::milliseconds most);
  /// The exit status of each. After one has failed, the others have `timeout` to end by themselves.
  std::vector<int> await_all(std::chrono::seconds timeout);

  pid_t process(size_t child) const { return children_[child].process; }
  void send_signal(int signal);
  bool were_asked() const { return were_asked_; }
  bool were_interrupted_twice() const { return interrupts_ > 1; }
  /// The number of the first that was killed by a signal of somebody else.
  std::optional<size_t> killed() const { return killed_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Child {
    pid_t process;
    std::optional<Clock::time_point> deadline;
    bool was_late = false, has_ended = false;
  };

  std::optional<ChildEnd> reap();
  void kill_late();
  bool handle_signals(std::chrono::milliseconds most);
  void forward(int signal);

  sigset_t watched_, before_;
  int at_once_;
  std::vector<Child> children_;
  int interrupts_ = 0;
  bool were_asked_ = false, has_killed_ = false;
  std::optional<size_t> killed_;
};

}  // namespace trainer
