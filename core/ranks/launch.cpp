// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/launch.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "core/base/error.h"

namespace trainer {
namespace {

constexpr const char* kLauncher = "mpirun";
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
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGPWR, SIGCHLD})
    sigaddset(&set, signal);
  return set;
}

/// In the child: does not return. The terminal's signals do not reach it, since it leads a session of its
/// own.
[[noreturn]] void become(const std::vector<std::string>& line, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(0);  // it was killed before
  ::setsid();
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // What says that this process is alone must not reach the ranks.
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) ::unsetenv(name);
  std::vector<char*> argv;
  for (const std::string& word : line) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(kNotFound);
}

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

}  // namespace

int launch_ranks(int64_t ranks, const std::vector<std::string>& command) {
  const std::vector<std::string> line = command_line(ranks, command);
  const sigset_t watched = watched_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &watched, &before);
  const pid_t self = ::getpid(), child = ::fork();
  if (child < 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    throw Error(ExitCode::out_of_memory, fmt::format("no process can be started: {}", std::strerror(errno)));
  }
  if (child == 0) become(line, self);
  int status = 0, interrupts = 0;
  bool asked = false;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    int signal = 0;
    if (::sigwait(&watched, &signal) != 0 || signal == SIGCHLD) continue;
    asked = true;
    if (signal == SIGINT) ++interrupts;
    ::kill(child, interrupts > 1 ? SIGTERM : SIGUSR1);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return interrupts > 1 ? 128 + SIGINT : code_of(status, ranks, asked);
}

}  // namespace trainer
