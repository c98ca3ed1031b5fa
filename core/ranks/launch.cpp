// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/launch.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <variant>

#include "core/base/error.h"
#include "core/ranks/children.h"
#include "core/ranks/line.h"
#include "core/ranks/secret.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> command_line(int64_t ranks, const std::vector<std::string>& command) {
  // More ranks than cores are allowed, and the program itself divides the cores.
  std::vector<std::string> line = {kLauncher, "--oversubscribe",    "--bind-to", "none",
                                   "-np",     std::to_string(ranks)};
  if (::geteuid() == 0) line.insert(line.begin() + 1, "--allow-run-as-root");
  line.insert(line.end(), command.begin(), command.end());
  return line;
}

/// The exit code of ranks that came to their end by themselves, and agreed on it.
bool is_own_code(int code) {
  return code == 0 ||
         (code >= static_cast<int>(ExitCode::usage) && code <= static_cast<int>(ExitCode::recipe));
}

/// `asked`: whether the ranks were asked to stop; the request may have come before they could heed it.
int code_of(int status, int64_t ranks, bool asked) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kProgramNotFound) {
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

/// mpirun ends within milliseconds of its ranks. Where one is killed at its start, mpirun 4.1 sometimes waits
/// for a lock of its own for ever.
constexpr std::chrono::seconds kPatienceWithLauncher(5);

/// mpirun's own files in a folder of their own: of several mpirun that share one (Open MPI 4.1's default),
/// one that ends may remove what another is about to use. A folder that the user has named stays in use.
class LauncherFolder {
 public:
  LauncherFolder() {
    std::error_code ignored;
    std::string name = (fs::temp_directory_path(ignored) / "trainer-mpirun-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return;
    path_ = name;
    for (const char* variable : {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"})
      ::setenv(variable, path_.c_str(), 0);
  }
  LauncherFolder(const LauncherFolder&) = delete;
  LauncherFolder& operator=(const LauncherFolder&) = delete;
  ~LauncherFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

 private:
  fs::path path_;
};

}  // namespace

int launch_ranks(int64_t ranks, const std::vector<std::string>& command, std::chrono::seconds deadline) {
  Children children(SIGTERM);  // of which mpirun makes KILL
  // No report of mpirun's about ranks that have told their own story: Open MPI 4's and 5's names for it.
  for (const char* variable : {"OMPI_MCA_orte_execute_quiet", "PRTE_MCA_prte_execute_quiet"})
    ::setenv(variable, "1", 0);
  const LauncherFolder folder;
  children.start(command_line(ranks, command), {});
  const auto end = children.await_launcher(ranks, {kPatienceWithLauncher, 3 * deadline + kPatienceWithRanks});
  if (children.were_interrupted_twice()) return 128 + SIGINT;
  if (const int* status = std::get_if<int>(&end)) return code_of(*status, ranks, children.were_asked());
  const std::string what =
      std::get<Children::Late>(end) == Children::Late::launcher
          ? fmt::format("the {} ranks have ended, but {} has not, and is killed", ranks, kLauncher)
          : fmt::format(
                "some of the {} ranks have ended, but {} has not ended the others, and all are killed", ranks,
                kLauncher);
  throw Error(children.were_asked() ? ExitCode::requeue : ExitCode::peer_lost,
              what + "; start the same command again");
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
