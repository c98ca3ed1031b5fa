// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

namespace trainer {

/// The program that a process runs; empty if it cannot be read.
std::filesystem::path program_of(pid_t process);
/// 0 if it is unknown.
pid_t parent_of(pid_t process);
/// The children of a process. Empty if the system does not list them.
std::vector<pid_t> children_of(pid_t process);

/// Whether a process is part of an MPI launcher: of Open MPI's (orterun, prterun) or Hydra. Both start ranks
/// through another process on each host.
bool is_of_launcher(pid_t process);
/// The descendants of a launcher that are not part of it: ranks.
std::vector<pid_t> ranks_of(pid_t launcher);
/// The program of this process's nearest ancestor that is part of a launcher; empty if there is none.
std::filesystem::path launcher_above();

}  // namespace trainer
