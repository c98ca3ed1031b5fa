// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/host/children.h"

namespace trainer {

/// A program that starts ranks, and connects them for one MPI.
struct Launcher {
  enum class Kind {
    open_mpi,
    hydra,  ///< of MPICH, Intel MPI and others
    other   ///< it takes what the standard asks of every mpiexec
  };
  std::string path;
  Kind kind = Kind::other;

  /// "mpirun"
  std::string name() const;
};

/// The path of a program in PATH; "" if it is in none of its folders.
std::string path_of_program(const std::string& name);
/// The path of the mpirun in PATH, else of the mpiexec; "" if there is neither.
std::string launcher_path();

/// The launcher at a path or, for "auto", at launcher_path(). Asks it for its version. Throws Error (exit 69)
/// if there is none.
Launcher find_launcher(const std::string& asked);

/// What a launcher is to start.
struct LaunchRequest {
  int64_t ranks = 1;
  std::vector<std::string> command;
  std::string launcher = "auto";  ///< or its path
  std::string hosts;  ///< a file with the names of hosts, as the launcher reads it; empty: this host
};

/// The launcher's command line. More ranks than cores are allowed, and none is bound: the program itself
/// divides the cores.
std::vector<std::string> launch_line(const Launcher& launcher, const LaunchRequest& request);
/// The variables that it needs besides, unless the user has set them.
ChildStart::Variables launch_variables(const Launcher& launcher, const LaunchRequest& request);

}  // namespace trainer
