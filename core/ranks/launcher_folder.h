// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/host/children.h"

namespace trainer {

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

  /// For mpirun and its ranks.
  ChildStart::Variables variables() const;
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
