// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/launch.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <variant>

#include "core/base/error.h"
#include "core/host/children.h"
#include "core/ranks/connection.h"
#include "core/ranks/launcher_folder.h"
#include "core/ranks/launcher_report.h"
#include "core/ranks/launcher_watch.h"
#include "core/ranks/secret.h"

namespace trainer {
namespace {

/// The exit code of ranks that have ended by themselves and agree on it.
bool is_own_code(int code) {
  return code == 0 ||
         (code >= static_cast<int>(ExitCode::usage) && code <= static_cast<int>(ExitCode::recipe));
}

/// The signal that ended a process, or one of its children as a shell or a launcher reports it; 0: none.
/// Hydra's exit code is the number of the signal; no rank exits with such a small one.
int signal_of(int status, Launcher::Kind kind = Launcher::Kind::other) {
  if (WIFSIGNALED(status)) return WTERMSIG(status);
  const int code = WEXITSTATUS(status),
            signal = kind == Launcher::Kind::hydra && code < NSIG ? code : code - 128;
  return signal > 0 && signal < NSIG ? signal : 0;
}

/// `asked`: whether the ranks were asked to stop; the request may have come before they could handle it.
int code_of(int status, bool asked, Launcher::Kind kind = Launcher::Kind::other) {
  if (WIFEXITED(status) && is_own_code(WEXITSTATUS(status))) return WEXITSTATUS(status);
  const bool has_stopped = asked && signal_of(status, kind) == SIGUSR1;
  return static_cast<int>(has_stopped ? ExitCode::requeue : ExitCode::peer_lost);
}

/// The exit code of ranks without MPI: that of a rank that failed by itself, not of those that left because
/// of it.
int code_of_all(const std::vector<int>& statuses, bool asked) {
  int code = 0;
  for (const int status : statuses) {
    const int own = code_of(status, asked);
    if (code == 0 || (code == static_cast<int>(ExitCode::peer_lost) && own != 0)) code = own;
  }
  return code;
}

/// The exit code of ranks that have reported theirs: that of a rank that failed by itself, after which mpirun
/// kills the others, or the common one.
std::optional<int> reported_exit_code(const std::vector<int>& codes, int64_t ranks) {
  int lost = 0;
  for (const int code : codes) {
    if (code != 0 && code != static_cast<int>(ExitCode::peer_lost)) return code;
    lost = std::max(lost, code);
  }
  return codes.size() == static_cast<size_t>(ranks) ? std::optional(lost) : std::nullopt;
}

/// For ranks that outlive another one. A rank that exits announces it, and the others end within six seconds,
/// or mpirun kills them sooner. This timeout is for a rank that is stopped: it ends within ten seconds after
/// the others have lost it.
constexpr std::chrono::seconds kRanksTimeout(8);

/// mpirun ends within milliseconds after its ranks. If one is killed at its start, mpirun 4.1 sometimes
/// deadlocks.
constexpr std::chrono::seconds kLauncherTimeout(5);

/// Handles a launcher that has ended for another reason than a rank's exit code.
[[noreturn]] void refuse_start(int status, const Launcher& launcher, int64_t ranks,
                               const LauncherFolder& folder, const LauncherReport& report) {
  throw Error(ExitCode::no_device,
              fmt::format("{} ended with exit code {} before the {} ranks had met{}; {}", launcher.path,
                          WEXITSTATUS(status), ranks, folder.fullness(),
                          report.is_empty() ? fmt::format("it gave no reason; try `{} -n {} hostname`",
                                                          launcher.path, ranks)
                                            : "correct what is named above"));
}

/// The exit code of the ranks of a launcher with this end.
int code_of_launcher(int status, const Launcher& launcher, const LaunchRequest& request, bool asked,
                     const LauncherFolder& folder, const LauncherReport& report) {
  const int64_t ranks = request.ranks;
  if (launcher.kind == Launcher::Kind::hydra && request.hosts.empty()) {
    const std::vector<int> codes = folder.reported_exit_codes();
    // Hydra returns the code of any rank, also the 0 of one that left early.
    const std::optional<int> code = reported_exit_code(codes, request.ranks);
    // After a signal has ended a rank, MPICH's launcher stops the others by TERM, and while they start, MPI
    // may fail in them.
    const bool follows = code == static_cast<int>(ExitCode::requeue) ||
                         (code == static_cast<int>(ExitCode::no_device) && !folder.have_joined());
    const bool is_cut_short = follows && !asked && std::ssize(codes) < request.ranks;
    if (is_cut_short)
      throw Error(ExitCode::peer_lost,
                  fmt::format("a rank was ended by a signal, and {} has ended the others; "
                              "start the same command again",
                              launcher.name()));
    if (code) return *code;
    if (status == 0 && folder.have_joined())
      throw Error(ExitCode::peer_lost,
                  fmt::format("{} of the {} ranks have ended without a word; start the same command again",
                              request.ranks - std::ssize(codes), request.ranks));
  }
  const int code = code_of(status, asked, launcher.kind);
  // Open MPI's mpirun 5.0 then returns 0 or 255.
  if (report.has_lost_host() && (code == 0 || code == static_cast<int>(ExitCode::peer_lost))) {
    throw Error(asked ? ExitCode::requeue : ExitCode::peer_lost,
                fmt::format("{} has lost a host, and the ranks there; start the same command again",
                            launcher.name()));
  }
  if (code != static_cast<int>(ExitCode::peer_lost) ||
      (WIFEXITED(status) && is_own_code(WEXITSTATUS(status))))
    return code;
  const std::string& killed = report.killed_rank();
  if (killed.empty()) report.show_exit_reports();
  const int signal = signal_of(status, launcher.kind);
  if (WIFSIGNALED(status)) {
    throw Error(ExitCode::peer_lost, fmt::format("{} was ended by {}, and its ranks with it; start the same "
                                                 "command again",
                                                 launcher.name(), signal_text(signal)));
  }
  const bool have_joined = folder.have_joined() || report.have_joined();
  if (have_joined && launcher.kind == Launcher::Kind::hydra && signal != 0) {
    throw Error(
        ExitCode::peer_lost,
        fmt::format("a rank was ended by {}, and {} has ended the others; start the same command again",
                    signal_text(signal), launcher.name()));
  }
  if (have_joined) return code;  // the others have said which one was lost
  if (signal == 0) refuse_start(status, launcher, ranks, folder, report);
  throw Error(ExitCode::peer_lost,
              fmt::format("{} was ended by {} before the {} ranks had met; start the same command again",
                          killed.empty() ? "a rank" : killed, signal_text(signal), ranks));
}

/// Starts ranks with a launcher, and waits for both. `children` are there to be signalled.
int launch(const Launcher& launcher, const LaunchRequest& request, Children& children) {
  const LauncherFolder folder;
  LauncherReport report;
  ChildStart::Variables variables = folder.variables(!request.hosts.empty());
  for (auto& variable : launch_variables(launcher, request)) variables.push_back(std::move(variable));
  children.start({.line = launch_line(launcher, request),
                  .variables = std::move(variables),
                  .errors = report.writing_end()});
  report.begin();
  const auto end = await_launcher(children, request.ranks, {kLauncherTimeout, kRanksTimeout});
  report.end();
  if (children.were_interrupted_twice()) return 128 + SIGINT;
  if (const int* status = std::get_if<int>(&end))
    return code_of_launcher(*status, launcher, request, children.were_asked(), folder, report);
  if (const std::optional<int> code = reported_exit_code(folder.reported_exit_codes(), request.ranks))
    return *code;
  const bool have_met = folder.have_joined() || report.have_joined();
  // MPICH 4 waits on if ssh has failed.
  if (!request.hosts.empty() && !have_met && !children.were_asked()) {
    throw Error(ExitCode::no_device,
                fmt::format("{} could not start the {} ranks on their hosts, and is killed; correct what is "
                            "named above",
                            launcher.path, request.ranks));
  }
  const std::string what =
      std::get<Late>(end) == Late::launcher
          ? fmt::format("the {} ranks have ended, but {} has not, and is killed", request.ranks,
                        launcher.name())
          : fmt::format(
                "some of the {} ranks have ended, but {} has not ended the others, and all are killed",
                request.ranks, launcher.name());
  throw Error(children.were_asked() ? ExitCode::requeue : ExitCode::peer_lost,
              what + "; start the same command again");
}

}  // namespace

int launch_ranks(const LaunchRequest& request, const Restarts& restarts) {
  const Launcher launcher = find_launcher(request.launcher);
  constexpr std::chrono::seconds kFirstPause(1), kLongestPause(60);
  std::chrono::seconds pause = kFirstPause;
  for (int64_t start = 1;; ++start, pause = std::min(2 * pause, kLongestPause)) {
    std::string why;
    bool was_asked = false;
    int code = 0;
    {
      Children children(SIGTERM);
      try {
        code = launch(launcher, request, children);
      } catch (const Error& problem) {
        if (problem.code() != ExitCode::peer_lost || start > restarts.most) throw;
        code = static_cast<int>(ExitCode::peer_lost);
        why = std::string(": ") + problem.what();
      }
      was_asked = children.were_asked() || children.were_interrupted_twice();
    }
    const bool is_lost = code == static_cast<int>(ExitCode::peer_lost);
    const bool is_stopped = code == static_cast<int>(ExitCode::requeue) && restarts.of_stops;
    if (was_asked || start > restarts.most || !(is_lost || is_stopped)) return code;
    restarts.warn(
        fmt::format("the ranks have ended with exit code {}{}; they start again in {} s "
                    "(run.max_restarts: {} of {})",
                    code, why, pause.count(), start, restarts.most));
    std::this_thread::sleep_for(pause);
  }
}

int launch_on_gpus(int64_t ranks, const std::vector<std::string>& command) {
  const Endpoint first = Listener("127.0.0.1", 0).endpoint();  // a port that is free
  const std::string secret = to_hex(random_bytes()), all = std::to_string(ranks);
  Children children(SIGKILL);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::string own = std::to_string(rank);
    children.start({.line = command,
                    .variables = {{"RANK", own},
                                  {"WORLD_SIZE", all},
                                  {"LOCAL_RANK", own},
                                  {"LOCAL_WORLD_SIZE", all},
                                  {"MASTER_ADDR", first.host},
                                  {"MASTER_PORT", std::to_string(first.port)},
                                  {"TRAINER_SECRET", secret}}});
  }
  const std::vector<int> statuses = children.await_all(kRanksTimeout);
  if (children.were_interrupted_twice()) return 128 + SIGINT;
  const int code = code_of_all(statuses, children.were_asked());
  if (const auto killed = children.killed(); killed && code == static_cast<int>(ExitCode::peer_lost)) {
    throw Error(ExitCode::peer_lost, fmt::format("rank {} was ended by {}; start the same command again",
                                                 *killed, signal_text(signal_of(statuses[*killed]))));
  }
  return code;
}

}  // namespace trainer
