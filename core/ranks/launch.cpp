// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/launch.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/ranks/line.h"
#include "core/ranks/secret.h"

namespace trainer {
namespace {

constexpr int kNotFound = 127;

std::vector<std::string> command_line(int64_t ranks, const std::vector<std::string>& command) {
  // More ranks than cores are allowed, and the program itself divides the cores.
  std::vector<std::string> line = {kLauncher, "--quiet", "--oversubscribe",    "--bind-to",
                                   "none",    "-np",     std::to_string(ranks)};
  if (::geteuid() == 0) line.insert(line.begin() + 1, "--allow-run-as-root");
  line.insert(line.end(), command.begin(), command.end());
  return line;
}

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

using Variables = std::vector<std::pair<std::string, std::string>>;

/// In the child: does not return. The terminal's signals do not reach it, since it leads a session of its
/// own.
[[noreturn]] void become(const std::vector<std::string>& line, const Variables& variables, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(0);  // it was killed before
  ::setsid();
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
  ::_exit(kNotFound);
}

/// Processes that this one has started, whose end it awaits. Signals reach them and nobody else meanwhile.
class Children {
 public:
  /// `at_once`: what ends a child without asking.
  explicit Children(int at_once) : watched_(watched_signals()), at_once_(at_once) {
    ::sigprocmask(SIG_BLOCK, &watched_, &before_);
  }
  ~Children() {
    for (const Child& child : children_) {
      if (!child.status) ::kill(child.process, SIGKILL);
    }
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void start(const std::vector<std::string>& line, const Variables& variables) {
    const pid_t self = ::getpid(), child = ::fork();
    if (child == 0) become(line, variables, self);
    if (child < 0) {
      throw Error(ExitCode::out_of_memory,
                  fmt::format("no process can be started: {}", std::strerror(errno)));
    }
    children_.push_back({child, std::nullopt});
  }

  /// What each of them ended with. After one has failed, the others have `patience` to end by themselves.
  std::vector<int> await(std::optional<std::chrono::seconds> patience) {
    std::optional<Clock::time_point> end;
    while (!reap()) {
      if (patience && !end && has_failed()) end = Clock::now() + *patience;
      if (end && Clock::now() > *end) tell(SIGKILL);
      const timespec wait{.tv_sec = 1, .tv_nsec = 0};
      if (const int signal = ::sigtimedwait(&watched_, nullptr, &wait); signal > 0 && signal != SIGCHLD)
        pass_on(signal);
    }
    std::vector<int> statuses;
    for (const Child& child : children_) statuses.push_back(*child.status);
    return statuses;
  }

  bool were_asked() const { return were_asked_; }
  bool were_interrupted_twice() const { return interrupts_ > 1; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Child {
    pid_t process;
    std::optional<int> status;
  };

  /// Whether all have ended.
  bool reap() {
    bool all = true;
    for (Child& child : children_) {
      int status = 0;
      if (!child.status && ::waitpid(child.process, &status, WNOHANG) == child.process) child.status = status;
      all = all && child.status;
    }
    return all;
  }
  bool has_failed() const {
    return std::ranges::any_of(children_,
                               [](const Child& child) { return child.status && *child.status != 0; });
  }
  void pass_on(int signal) {
    were_asked_ = true;
    if (signal == SIGINT) ++interrupts_;
    tell(interrupts_ > 1 ? at_once_ : SIGUSR1);
  }
  void tell(int signal) const {
    for (const Child& child : children_) {
      if (!child.status) ::kill(child.process, signal);
    }
  }

  sigset_t watched_, before_;
  int at_once_;
  std::vector<Child> children_;
  int interrupts_ = 0;
  bool were_asked_ = false;
};

/// The exit code of ranks that came to their end by themselves, and agreed on it.
bool is_own_code(int code) {
  return code == 0 ||
         (code >= static_cast<int>(ExitCode::usage) && code <= static_cast<int>(ExitCode::recipe));
}

/// `asked`: whether the ranks were asked to stop; the request may have come before they could heed it.
int code_of(int status, int64_t ranks, bool asked) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotFound) {
    throw Error(ExitCode::no_device,
                fmt::format("{} ranks on CPUs want {}, which was not found; install Open MPI (openmpi-bin)",
                            ranks, kLauncher));
  }
  if (WIFEXITED(status) && is_own_code(WEXITSTATUS(status))) return WEXITSTATUS(status);
  const bool heeds = !(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1) &&
                     !(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGUSR1);
  return static_cast<int>(asked && !heeds ? ExitCode::requeue : ExitCode::peer_lost);
}

/// Of ranks without MPI: that of the one which has failed by itself, not of those that have left because of
/// it.
int code_of_all(const std::vector<int>& statuses, int64_t ranks, bool asked) {
  int code = 0;
  for (const int status : statuses) {
    const int own = code_of(status, ranks, asked);
    if (code == 0 || (code == static_cast<int>(ExitCode::peer_lost) && own != 0)) code = own;
  }
  return code;
}

/// A rank that leaves tells the others, so this is for those that hear nothing any more.
constexpr std::chrono::seconds kPatienceWithRanks(10);

}  // namespace

int launch_ranks(int64_t ranks, const std::vector<std::string>& command) {
  Children children(SIGTERM);  // of which mpirun makes KILL
  children.start(command_line(ranks, command), {});
  const int status = children.await({}).front();
  return children.were_interrupted_twice() ? 128 + SIGINT : code_of(status, ranks, children.were_asked());
}

int launch_on_gpus(int64_t ranks, const std::vector<std::string>& command) {
  const Endpoint first = Listener("127.0.0.1", 0).endpoint();  // a port that is free
  const std::string secret = to_hex(random_bytes()), all = std::to_string(ranks);
  Children children(SIGKILL);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::string own = std::to_string(rank);
    children.start(command, {{"RANK", own},
                             {"WORLD_SIZE", all},
                             {"LOCAL_RANK", own},
                             {"LOCAL_WORLD_SIZE", all},
                             {"MASTER_ADDR", first.host},
                             {"MASTER_PORT", std::to_string(first.port)},
                             {"TRAINER_SECRET", secret}});
  }
  const std::vector<int> statuses = children.await(kPatienceWithRanks);
  return children.were_interrupted_twice() ? 128 + SIGINT
                                           : code_of_all(statuses, ranks, children.were_asked());
}

}  // namespace trainer
