// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/source.h"
#include "core/engine/executable.h"
#include "core/engine/process_group.h"
#include "core/host/library_exit.h"
#include "core/host/log.h"
#include "core/ranks/identity.h"
#include "core/ranks/peer_connections.h"
#include "core/recipe/run_spec.h"
#include "core/run/rank_logs.h"
#include "core/run/status.h"

namespace trainer {

/// This process's place among the ranks of a run. Rank 0 alone has the run's directory; the others get its
/// choices and its tensors.
class Membership {
 public:
  /// Joins the other ranks. Throws Error: exit 64 or 69 if they cannot join, 78 if the run's directory
  /// belongs to another run. From then on this process ends if another rank is lost or has failed, and names
  /// it. `trains`: the run; else ranks without MPI need TRAINER_SECRET, as a run that may be finished gets no
  /// file with a secret.
  Membership(const RunSpec& spec, const RankIdentity& identity, bool trains = true);
  ~Membership();

  bool has_peers() const { return !identity_.is_alone(); }
  bool is_rank_0() const { return identity_.rank == 0; }
  /// Whether each rank has found the run finished before it joined the others. Then nothing else may be
  /// called.
  bool is_finished() const { return is_finished_; }
  int64_t local_rank() const { return identity_.local_rank; }
  ProcessGroup& group() const { return *group_; }
  /// As PeerConnections' of several ranks. Outside of steps an answer counts as progress of this rank; within
  /// them a thread in the background gets it.
  std::string ask(int64_t rank, const std::string& request) const;
  /// The answer may throw, which ends this rank; it must not call leave_with.
  void answer_with(std::function<std::string(const std::string&)> answer) const;
  /// Waits until every rank has called it, however long one works: a rank that hangs is still found. Not
  /// within steps.
  void await_all() const;
  /// Among several ranks: prints what went wrong and ends the process with its exit code, which ends the
  /// others. Does not wait for them, as MPI_Finalize would. Returns if this process is alone.
  void leave_with(const std::exception& problem) const;
  /// The failure that an exception stands for, in the words of the rank that has failed. Waits a few seconds
  /// for these.
  Failure failure_of(const std::exception& problem) const;
  /// "[rank 3, node2] "; "" on rank 0.
  std::string prefix() const;
  /// On another rank than 0: from now on rank 0 gets what this log says.
  void pass_on(Log& log) const;
  /// On rank 0: from now on what the other ranks say is in this directory of the run.
  void keep_logs(const std::filesystem::path& run) const { logs_.open(run); }
  /// On rank 0: writes what has come since.
  void write_logs() const { logs_.write(); }
  /// On rank 0: all ranks; nothing if it is alone.
  std::vector<RankState> ranks() const;

  /// Throws Error (exit 69) if these ranks cannot train on that type of device, or if rank 0 trains on
  /// another one, `of_rank_0`. From now on this rank's heartbeats name its GPU.
  void require_device(const std::string& type, const std::string& of_rank_0) const;
  /// Throws Error (exit 78) on a rank whose plan differs from that of the first rank of its stage, or whose
  /// program from that of rank 0, with the facts of the planner that differ, or else the first node.
  void require_same_plan(const Plan& plan, const Program& program,
                         std::map<std::string, std::string> facts) const;
  /// Throws Error (exit 78) if a stage of the pipeline does not send what another one expects.
  void require_same_borders(const Plan& plan, const Mesh& mesh) const;
  /// The same for samples; `split` is for the message.
  void require_same_samples(const DataSource& own, const std::string& split) const;

 private:
  void join_by_mpi(std::chrono::seconds timeout);
  void join_by_address(const RunSpec& spec, std::chrono::seconds timeout, bool trains);
  PeerConnectionsRequest connections_request(const Secret& secret, std::chrono::seconds timeout);
  void on_lost(ExitCode code, const std::string& text);
  [[noreturn]] void leave(ExitCode code, const std::string& text) const;

  RankIdentity identity_;
  std::optional<LibraryExit> mpi_exit_;
  bool has_mpi_ = false, is_finished_ = false;
  mutable std::atomic<bool> leaves_ = false;
  mutable std::atomic<int64_t> gpu_ = -1;
  mutable RankLogs logs_;
  std::promise<std::string> reason_;  ///< of another rank that has failed
  std::shared_future<std::string> reason_of_other_ = reason_.get_future();
  std::unique_ptr<ProcessGroup> group_;
  std::atomic<PeerConnections*> open_peers_ = nullptr;
  std::unique_ptr<PeerConnections> peers_;
};

/// The specification for this process among those that a launcher has started. Throws Error (exit 78) if
/// parallelism.data and .tensor give another number, or if the ranks cannot share a batch evenly.
RunSpec launched_spec(std::shared_ptr<const Recipe> recipe, const RankIdentity& identity);

/// The same for rank 0 of parallelism.data ranks that were not started; the program starts them all here.
RunSpec planned_spec(std::shared_ptr<const Recipe> recipe);

/// Throws Error (exit 64) if a launcher has started several processes of a command for one.
void require_one_process(const std::string& what);

}  // namespace trainer
