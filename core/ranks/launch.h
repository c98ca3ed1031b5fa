// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/ranks/launcher.h"

namespace trainer {

/// How often ranks that were lost are started again.
struct Restarts {
  int64_t most = 0;
  bool of_stops = false;  ///< also ranks that were stopped (75), if nobody has asked this process to stop
  std::function<void(const std::string& text)> warn = {};  ///< called before each
};

/// Has a launcher of MPI start ranks, and waits for them. Signals that ask to stop (TERM, INT, HUP, USR1,
/// USR2, XCPU, PWR, ALRM) reach the ranks as USR1: launchers forward that one, while on TERM Open MPI's
/// would kill them within two seconds. A second INT ends them at once, with 130. If this process is killed,
/// the ranks end too. Returns the ranks' exit code, or 76 if one of them was killed. Throws Error: exit 69 if
/// there is no launcher, or it fails before the ranks have joined; 76 if a rank is killed before that. If the
/// launcher outlives its ranks by seconds, or some ranks outlive the others, it is killed. The exit code is
/// then the one that the ranks have reported, else 76 (75 after such a signal).
///
/// After 76 the ranks are started again, up to `restarts.most` times, and resume from their newest
/// checkpoint. The pauses between grow from one second to a minute. A signal during a pause has its usual
/// effect.
int launch_ranks(const LaunchRequest& request, const Restarts& restarts = {});

/// For rank 0, once all ranks have joined. From then on launch_ranks takes a failure for theirs and not for
/// mpirun's.
void report_rendezvous_to_launcher();

/// For a rank, at its start: from then on launch_ranks gets its exit code (host/exit_report.h), even if the
/// launcher returns another one or hangs.
void report_end_to_launcher();

/// The same as launch_ranks for ranks that train on this host's GPUs: without MPI, which they do not need.
/// After one has failed, the others are killed unless they end within seconds. Throws Error (exit 76) if
/// one was killed, and names it.
int launch_on_gpus(int64_t ranks, const std::vector<std::string>& command);

}  // namespace trainer
