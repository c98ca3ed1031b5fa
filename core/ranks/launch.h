// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

/// The program that starts ranks.
constexpr const char* kLauncher = "mpirun";

/// Starts this many ranks of `command` on this host by `mpirun`, and waits for them. Signals that ask to stop
/// (TERM, INT, HUP, USR1, USR2, XCPU, PWR, ALRM) reach the ranks as USR1: mpirun forwards that one, while on
/// TERM it would kill them within two seconds. A second INT ends them at once, with 130. If this process is
/// killed, the ranks end too. Returns the ranks' exit code, or 76 if one of them was killed. Throws Error:
/// exit 69 if mpirun is missing or fails before the ranks have joined; 76 if a rank is killed before that. If
/// mpirun outlives its ranks by seconds, or some ranks outlive the others, it is killed. The exit code is
/// then the one that the ranks have reported, else 76 (75 after such a signal).
int launch_ranks(int64_t ranks, const std::vector<std::string>& command);

/// For rank 0, once all ranks have joined. From then on launch_ranks takes a failure for theirs and not for
/// mpirun's.
void report_rendezvous_to_launcher();

/// For a rank that ends by itself: launch_ranks then knows its exit code even if mpirun outlives its ranks.
void report_end_to_launcher(int code);

/// The same as launch_ranks for ranks that train on this host's GPUs: without MPI, which they do not need.
/// After one has failed, the others are killed unless they end within seconds. Throws Error (exit 76) if
/// one was killed, and names it.
int launch_on_gpus(int64_t ranks, const std::vector<std::string>& command);

}  // namespace trainer
