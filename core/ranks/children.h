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

/// Processes that this one has started, whose end it awaits. Signals reach them and nobody else meanwhile.
class Children {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  /// `at_once`: what ends a child without asking.
  explicit Children(int at_once);
  /// Kills those that have not ended.
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  /// `errors`: its standard error; -1: this process's. Throws Error (exit 71) if the system has no room
  /// for it.
  void start(const std::vector<std::string>& line, const Variables& variables, int errors = -1);

  /// What each of them ended with. After one has failed, the others have `patience` to end by themselves.
  std::vector<int> await(std::chrono::seconds patience);

  /// How long a launcher may live on after all of its processes have ended, and how long the others after
  /// one.
  struct Patience {
    std::chrono::seconds with_launcher, with_others;
  };
  enum class Late { launcher, others };
  /// Waits for the only child, a program that starts this many processes and awaits them. Returns what it
  /// ended with, or what has tried the patience; then whatever is left of its processes is killed.
  std::variant<int, Late> await_launcher(int64_t processes, const Patience& patience);

  bool were_asked() const { return were_asked_; }
  bool were_interrupted_twice() const { return interrupts_ > 1; }
  /// The number of the first that was ended by a signal which is not from here.
  std::optional<size_t> killed() const { return killed_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Child {
    pid_t process;
    std::optional<int> status;
  };

  bool reap();
  bool has_failed() const;
  void heed_signals(std::chrono::milliseconds most);
  void pass_on(int signal);
  void tell(int signal);

  sigset_t watched_, before_;
  int at_once_;
  std::vector<Child> children_;
  int interrupts_ = 0;
  bool were_asked_ = false, has_killed_ = false;
  std::optional<size_t> killed_;
};

}  // namespace trainer
