// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/host/children.h"

namespace trainer {

/// By this variable rank 0 knows how to report that all ranks have joined: a file to make, or with
/// kByRanksMetLine a line for its standard error, which launchers forward.
constexpr const char *kRanksMetVariable = "TRAINER_RANKS_MET", *kByRanksMetLine = "stderr";
constexpr const char* kRanksMetLine = "trainer: all ranks have joined\n";

/// A folder for mpirun's own files, removed with this object. By default all mpirun of Open MPI 4.1 share
/// one, and one that ends may remove files that another is about to use. A folder that the user has named
/// stays in use.
class LauncherFolder {
 public:
  /// Throws Error (exit 69) if there is no place for it.
  LauncherFolder();
  ~LauncherFolder();
  LauncherFolder(const LauncherFolder&) = delete;
  LauncherFolder& operator=(const LauncherFolder&) = delete;

  /// For mpirun and its ranks. Ranks on other hosts, which do not have this folder, report with
  /// kRanksMetLine.
  ChildStart::Variables variables(bool on_other_hosts) const;
  /// Whether rank 0 has called report_rendezvous_to_launcher.
  bool have_joined() const;
  /// The exit codes of those ranks that have ended by themselves.
  std::vector<int> reported_exit_codes() const;
  /// "; FOLDER is full", or "".
  std::string fullness() const;

 private:
  std::filesystem::path path_;
};

}  // namespace trainer
