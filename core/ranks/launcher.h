// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/host/children.h"

namespace trainer {

/// A program that starts ranks, such as mpirun.
struct Launcher {
  enum class Kind {
    open_mpi,
    hydra,  ///< of MPICH, Intel MPI and others
    other   ///< only with the options that the MPI standard defines for mpiexec
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

/// The launcher at a path or, for "auto", at launcher_path(). Runs it with --version to find its kind. Throws
/// Error (exit 69) if there is none.
Launcher find_launcher(const std::string& asked);

/// The ranks to start.
struct LaunchRequest {
  int64_t ranks = 1;
  std::vector<std::string> command;
  std::string launcher = "auto";  ///< or its path
  std::string hosts;              ///< a file of hosts in the launcher's format; empty: this host
};

/// The launcher's command line. More ranks than cores are allowed, and none is bound: the program itself
/// divides the cores.
std::vector<std::string> launch_line(const Launcher& launcher, const LaunchRequest& request);
/// Environment variables for it, except those that the user has set.
ChildStart::Variables launch_variables(const Launcher& launcher, const LaunchRequest& request);

}  // namespace trainer
