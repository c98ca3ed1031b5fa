// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/data/source.h"
#include "core/engine/communicator.h"
#include "core/engine/executable.h"
#include "core/ranks/control.h"
#include "core/ranks/identity.h"
#include "core/recipe/run_spec.h"
#include "core/run/checkpoints.h"
#include "core/train/checkpointer.h"

namespace trainer {

/// The processes that train a run together, this one among them. Rank 0 alone has the run's directory; the
/// others get its choices and its tensors.
class Ranks {
 public:
  /// Meets the other ranks. Throws Error: exit 64 or 69 if they cannot meet, 78 if they would meet in the
  /// directory of another run. From then on this process ends if another rank is lost or has failed, and
  /// names it.
  Ranks(const RunSpec& spec, const Identity& identity);
  ~Ranks();

  bool are_several() const { return !identity_.is_alone(); }
  bool is_first() const { return identity_.rank == 0; }
  /// Each rank has found that the run is finished, where they would have met. They have not: nothing else may
  /// be asked then.
  bool are_finished() const { return are_finished_; }
  int64_t local_rank() const { return identity_.local_rank; }
  Communicator& communicator() const { return *communicator_; }
  /// For recipes that leave device.threads open: this rank's part of its host's cores. The launcher may allow
  /// it fewer.
  int64_t threads() const;
  /// Among several ranks: prints what went wrong and ends the process with its exit code, which ends the
  /// others. Does not wait for them, as the end of MPI would. One rank returns.
  void leave_with(const std::exception& problem) const;
  /// What an exception means, in the words of the rank that has failed, for which it waits a few seconds.
  Failure failure_of(const std::exception& problem) const;
  /// "rank 3: "; "" on rank 0.
  std::string prefix() const;

  /// Throws Error (exit 69) if these ranks cannot train on that kind of device, or rank 0, whose device is
  /// of the kind `first`, trains on another.
  void require_engine(const std::string& device, const std::string& first) const;
  /// Throws Error (exit 78) on a rank whose plan is not that of rank 0, with which of the planner's facts
  /// differ.
  void require_same_plan(const Plan& plan, std::map<std::string, std::string> facts) const;
  /// The same of samples; `split` is for the message.
  void require_same_samples(const DataSource& own, const std::string& split) const;

 private:
  void join_by_mpi(std::chrono::seconds timeout);
  void join_by_address(const RunSpec& spec, std::chrono::seconds timeout);
  ControlRequest control_request(const Secret& secret, std::chrono::seconds timeout);
  void on_lost(ExitCode code, const std::string& text);
  [[noreturn]] void leave(ExitCode code, const std::string& text) const;

  Identity identity_;
  bool adds_up_on_cpus_ = false, are_finished_ = false;
  mutable std::atomic<bool> leaves_ = false;
  std::promise<std::string> reason_;  ///< of another rank that has failed
  std::shared_future<std::string> reason_of_other_ = reason_.get_future();
  std::unique_ptr<Communicator> communicator_;
  std::atomic<Control*> watched_ = nullptr;
  std::unique_ptr<Control> control_;
};

/// What the recipe means for this process among those that a launcher has started. Throws Error (exit 78) if
/// parallelism.data is another number, or if they cannot share a batch evenly.
RunSpec launched_spec(std::shared_ptr<const Recipe> recipe, const Identity& identity);

/// The same for rank 0 of parallelism.data ranks that nobody has started.
RunSpec planned_spec(std::shared_ptr<const Recipe> recipe);

/// Throws Error (exit 64) if a launcher has started several processes of what one does.
void require_one_process(const std::string& what);

/// Rank 0 saves and restores; the others follow.
class SharedCheckpoints final : public Checkpointer {
 public:
  /// `own` is that of rank 0, null on the others; the policy is that of all of them.
  SharedCheckpoints(const Ranks& ranks, Executable& executable, Checkpointer* own,
                    const CheckpointPolicy& policy)
      : ranks_(ranks), executable_(executable), own_(own), policy_(policy) {}

  bool is_due(int64_t step) const override { return policy_.is_due(step); }
  bool is_overdue() const override { return own_ != nullptr && own_->is_overdue(); }
  bool is_best(const LoopState& state) const override { return policy_.is_best(state); }
  void save(const LoopState& state) override;
  void report() override;
  void save_now(const LoopState& state) override;
  std::optional<LoopState> restore() override;

 private:
  void gather();

  const Ranks& ranks_;
  Executable& executable_;
  Checkpointer* own_;
  CheckpointPolicy policy_;
};

}  // namespace trainer
