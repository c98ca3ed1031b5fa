// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/whereabouts.h"
#include "core/ranks/identity.h"
#include "core/ranks/line.h"
#include "core/ranks/secret.h"

namespace trainer {

class StarEnd;

struct ControlRequest {
  Identity identity;
  std::string host;  ///< of this rank, for messages
  Secret secret;
  std::chrono::seconds timeout{100};  ///< for a rank to be heard of; three of them for all to join
  std::function<Whereabouts()> whereabouts;
  /// Called once, by a thread of its own, if another rank is gone or has said farewell: with the exit code
  /// that this rank is to have, and why.
  std::function<void(ExitCode code, const std::string& text)> on_lost;
};

/// The control connections of a run, a star about rank 0: each rank says where it is, texts reach all of
/// them, and all learn at once which of them is gone. Only who knows the run's secret can join.
class Control {
 public:
  /// Rank 0. Returns when all have joined; throws Error (exit 76) with the missing ones otherwise.
  Control(const ControlRequest& request, Listener listener);
  /// The others. Throws Error: exit 69 if rank 0 refuses this one, 76 if it does not answer.
  Control(const ControlRequest& request, const Endpoint& first);
  /// Says farewell, so that nobody takes this rank for lost.
  ~Control();

  /// Gives all ranks a text and returns the number of that round, which take() wants. Every rank gives in the
  /// same order. Does not wait.
  int64_t give(const std::string& text);
  /// What each rank has given. Waits for those that have not yet; throws PeerError if one is lost.
  std::vector<std::string> take(int64_t round);

  /// Which rank the others wait for, its host and where it is: "rank 1 on HOST, at step 17: computing";
  /// "" if none is behind.
  std::string laggard() const;

  /// Tells all ranks that this one leaves, and why. Returns when that is on its way, at the latest after a
  /// second.
  void farewell(ExitCode code, const std::string& reason);
  /// On another rank than 0: waits until the process of rank 0 has ended, at most that long.
  void await_end_of_first(std::chrono::milliseconds patience);

 private:
  void begin();
  void run();
  bool watch();
  void wake() const;

  ControlRequest request_;
  std::unique_ptr<StarEnd> end_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Descriptor waker_;
  int64_t given_ = 0;
  Line::Clock::time_point next_beat_, watched_ = Line::Clock::now();
  bool ends_ = false;
  std::thread thread_;
};

/// The address of this host to which rank 0 binds: that of identity.address (MASTER_ADDR) or else of the
/// host's name, of its first interface if these are known as the loopback; and the loopback if all
/// ranks are on this host.
std::string address_for(const Identity& identity);

/// Where the ranks meet that no MPI joins: MASTER_ADDR and MASTER_PORT; within a Slurm step its first node,
/// and a port made of the numbers of job and step. Throws Error (exit 64) if the launcher says neither.
Endpoint meeting_place(const Identity& identity);

}  // namespace trainer
