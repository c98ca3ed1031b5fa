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
#include "core/base/rank_status.h"
#include "core/ranks/connection.h"
#include "core/ranks/identity.h"
#include "core/ranks/secret.h"

namespace trainer {

class Participant;

struct PeerConnectionsRequest {
  RankIdentity identity;
  std::string host;  ///< of this rank, for messages
  Secret secret;
  std::chrono::seconds timeout{100};  ///< for a peer's heartbeats; all ranks must join within three timeouts
  std::function<RankStatus()> status;
  /// Called once, by a thread of its own, if another rank is lost or has announced its exit: with the exit
  /// code for this rank, and the reason.
  std::function<void(ExitCode code, const std::string& text)> on_lost;
  /// On rank 0: called for each line that another rank's send_line has sent, by a thread of the connections.
  std::function<void(int64_t rank, const std::string& text)> on_line = nullptr;
};

/// A rank as rank 0 last heard of it.
struct RankOverview {
  std::string host;
  RankStatus status;
};

/// The connections of a run: one between rank 0 and each other rank. They carry heartbeats, gather texts, let
/// rank 0 ask others, and let all ranks know at once which of them is lost. Only processes that know the
/// run's secret can join.
class PeerConnections {
 public:
  /// Rank 0. Returns once all have joined; otherwise throws Error (exit 76) that names the missing ones.
  PeerConnections(const PeerConnectionsRequest& request, Listener listener);
  /// The others. Throws Error: exit 69 if rank 0 refuses this one, 76 if it does not answer.
  PeerConnections(const PeerConnectionsRequest& request, const Endpoint& rank_0);
  /// Announces the exit of this rank, so that no rank takes it for lost.
  ~PeerConnections();

  /// Sends a text to all ranks, and returns the number of that round. Every rank calls it in the same order.
  /// Does not wait.
  int64_t start_all_gather(const std::string& text);
  /// The texts of that round, by rank. Waits for them; throws PeerError if a rank is lost.
  std::vector<std::string> wait_all_gather(int64_t round);

  /// On rank 0: sends a request to another rank, and returns its answer. Only one thread at a time calls it.
  /// Throws PeerError if a rank is lost or exits.
  std::string ask(int64_t rank, const std::string& request);
  /// On another rank: from now on `answer` answers the requests of rank 0. It is called by a thread of the
  /// connections, which heartbeats wait for, and no longer once this is called with another one. Without one
  /// requests stay unanswered.
  void answer_with(std::function<std::string(const std::string&)> answer);

  /// On another rank: sends a line of its log to rank 0. Does not wait. Any thread may call it.
  void send_line(const std::string& text);
  /// On rank 0: all ranks.
  std::vector<RankOverview> overview() const;

  /// The rank that the others wait for, with its host and status: "rank 1 on HOST, at step 17: computing". ""
  /// if there is none.
  std::string straggler() const;

  /// Announces to all ranks that this one exits, and why. Returns once that is sent, after a second at the
  /// latest.
  void announce_exit(ExitCode code, const std::string& reason);
  /// On another rank than 0: waits until the process of rank 0 has ended, at most for the timeout.
  void await_exit_of_rank_0(std::chrono::milliseconds timeout);

 private:
  void start();
  void run();
  bool poll();
  void wake() const;

  PeerConnectionsRequest request_;
  std::unique_ptr<Participant> participant_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  FileDescriptor waker_;
  int64_t rounds_ = 0;  ///< started
  Connection::Clock::time_point next_heartbeat_, polled_ = Connection::Clock::now();
  bool ends_ = false;
  std::thread thread_;
};

/// The address that rank 0 binds: that of identity.address (MASTER_ADDR), else of the host's name, else of
/// its first interface if these resolve to the loopback. The loopback if all ranks are on this host.
std::string listening_address(const RankIdentity& identity);

/// The rendezvous of ranks without MPI: MASTER_ADDR and MASTER_PORT; within a Slurm step its first node, and
/// a port made of the numbers of job and step. Throws Error (exit 64) if the launcher sets neither.
Endpoint rendezvous_endpoint(const RankIdentity& identity);

}  // namespace trainer
