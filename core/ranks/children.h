// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace trainer {

/// The child processes that this one waits for. Meanwhile signals are forwarded to them alone.
class Children {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  /// `at_once`: the signal that ends a child immediately.
  explicit Children(int at_once);
  /// Kills those that have not ended.
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  /// `errors`: its standard error; -1: that of this process. Throws Error (exit 71) if the system cannot
  /// start it.
  void start(const std::vector<std::string>& line, const Variables& variables, int errors = -1);

  /// The exit status of each. After one has failed, the others have `timeout` to end by themselves.
  std::vector<int> await(std::chrono::seconds timeout);

  /// How long a launcher may outlive its processes, and how long the others may outlive the first.
  struct Timeouts {
    std::chrono::seconds with_launcher, with_others;
  };
  enum class Late { launcher, others };
  /// Waits for the only child, a launcher of this many processes. Returns its exit status, or which timeout
  /// has passed; then its remaining processes are killed.
  std::variant<int, Late> await_launcher(int64_t processes, const Timeouts& timeout);

  bool were_asked() const { return were_asked_; }
  bool were_interrupted_twice() const { return interrupts_ > 1; }
  /// The index of the first that was killed by a signal of somebody else.
  std::optional<size_t> killed() const { return killed_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Child {
    pid_t process;
    std::optional<int> status;
  };

  bool reap();
  bool has_failed() const;
  void handle_signals(std::chrono::milliseconds most);
  void forward(int signal);
  void send_signal(int signal);

  sigset_t watched_, before_;
  int at_once_;
  std::vector<Child> children_;
  int interrupts_ = 0;
  bool were_asked_ = false, has_killed_ = false;
  std::optional<size_t> killed_;
};

}  // namespace trainer
