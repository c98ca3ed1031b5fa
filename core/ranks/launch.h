// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

/// The program that starts ranks.
constexpr const char* kLauncher = "mpirun";
/// The exit code of a process that found no program to become, as a shell's.
constexpr int kProgramNotFound = 127;

/// Starts this many ranks of `command` on this host by `mpirun`, and waits for them. Signals that ask to stop
/// (TERM, INT, HUP, USR1, USR2, XCPU, PWR, ALRM) reach the ranks as USR1: mpirun passes that on, if on
/// TERM it would kill them within two seconds. A second INT ends them at once, with 130. Should this process
/// be killed, the ranks end too. Returns the ranks' exit code, or that of a lost peer if one of them was
/// killed. Throws Error: exit 69 if mpirun is not there or fails before the ranks have met; 76 if a
/// rank is killed before that. If mpirun outlives its ranks, or some of them the others, by seconds, it is
/// killed, and the exit code is that of the ranks, if they have reported it, else 76 (75 after such a
/// signal).
int launch_ranks(int64_t ranks, const std::vector<std::string>& command);

/// For rank 0, once all ranks have met: if launch_ranks has started them, a failure is theirs from then on
/// and not mpirun's.
void report_meeting_to_launcher();

/// For a rank that ends by itself, with its exit code: launch_ranks need not learn it from mpirun, which may
/// outlive its ranks.
void report_end_to_launcher(int code);

/// The same as launch_ranks for ranks that train on this host's GPUs: without MPI, which they do not need.
/// After one has failed, the others are killed unless they end within seconds. Throws Error (exit 76) if
/// one was killed, and names it.
int launch_on_gpus(int64_t ranks, const std::vector<std::string>& command);

}  // namespace trainer
