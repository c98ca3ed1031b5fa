// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/launcher_folder.h"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "core/base/directory.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/host/exit_report.h"
#include "core/ranks/launch.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMetFile = "ranks-met";
/// The folder in which each rank leaves its exit code, in a file named by its process.
constexpr const char* kEndedVariable = "TRAINER_RANKS_ENDED";
constexpr const char* kEndedFolder = "ranks-ended";

}  // namespace

LauncherFolder::LauncherFolder() {
  std::error_code problem;
  const fs::path base = fs::temp_directory_path(problem);
  std::string name = (base / "trainer-mpirun-XXXXXX").string();
  if (problem || ::mkdtemp(name.data()) == nullptr) {
    const std::string reason = problem ? problem.message() : std::strerror(errno);
    const char* given = std::getenv("TMPDIR");
    throw Error(
        ExitCode::no_device,
        fmt::format("mpirun needs a folder for its files, and none can be made in {}: {}; set TMPDIR to a "
                    "folder that can be written to",
                    problem && given != nullptr ? given : base.string(), reason));
  }
  path_ = name;
  fs::create_directory(path_ / kEndedFolder, problem);  // without it codes come from mpirun alone
}

LauncherFolder::~LauncherFolder() {
  remove_tree(path_);
}

ChildStart::Variables LauncherFolder::variables(bool on_other_hosts) const {
  ChildStart::Variables variables = {
      {kRanksMetVariable, on_other_hosts ? kByRanksMetLine : (path_ / kMetFile).string()},
      {kEndedVariable, (path_ / kEndedFolder).string()}};
  for (const char* name : {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"}) {
    if (std::getenv(name) == nullptr) variables.emplace_back(name, path_.string());
  }
  return variables;
}

bool LauncherFolder::have_joined() const {
  std::error_code unknown;
  return fs::exists(path_ / kMetFile, unknown);
}

std::vector<int> LauncherFolder::reported_exit_codes() const {
  std::vector<int> codes;
  std::error_code unknown;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_ / kEndedFolder, unknown)) {
    int code = 0;
    if (std::ifstream(entry.path()) >> code) codes.push_back(code);
  }
  return codes;
}

std::string LauncherFolder::fullness() const {
  constexpr uintmax_t kLeast = 1024 * 1024;
  std::error_code unknown;
  const fs::space_info space = fs::space(path_, unknown);
  if (unknown || space.available >= kLeast) return "";
  return fmt::format("; {} is full", path_.parent_path().string());
}

void report_rendezvous_to_launcher() {
  const char* file = std::getenv(kRanksMetVariable);
  if (file == nullptr) return;
  if (std::string_view(file) == kByRanksMetLine) {
    write_all(STDERR_FILENO, kRanksMetLine);
  } else {
    std::ofstream{file};
  }
}

void report_end_to_launcher() {
  const char* folder = std::getenv(kEndedVariable);
  if (folder != nullptr) report_exit_code_in(fs::path(folder) / std::to_string(::getpid()));
}

}  // namespace trainer
