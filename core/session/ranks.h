// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "core/engine/communicator.h"
#include "core/engine/executable.h"
#include "core/ranks/identity.h"
#include "core/recipe/recipe.h"
#include "core/run/checkpoints.h"
#include "core/train/checkpointer.h"

namespace trainer {

/// The processes that train a run together, this one among them. Rank 0 alone has the run's directory; the
/// others get its choices and its tensors.
class Ranks {
 public:
  /// As the launcher says, which parallelism.data must agree with; `recipe` then knows its share of a step.
  /// Throws Error: exit 64 and 78 where launcher, recipe and batch sizes do not fit together, 69 where no
  /// engine joins the ranks.
  explicit Ranks(Recipe& recipe);

  bool are_several() const { return communicator_->ranks() > 1; }
  bool is_first() const { return communicator_->rank() == 0; }
  Communicator& communicator() const { return *communicator_; }
  /// For recipes that leave device.threads open: this rank's part of its host's cores. The launcher may allow
  /// it fewer.
  int64_t threads() const;
  /// Among several ranks: prints what went wrong and ends the process with its exit code, which ends the
  /// others. Does not wait for them, as the end of MPI would. One rank returns.
  void leave_with(const std::exception& problem) const;
  /// "rank 3: "; "" on rank 0.
  std::string prefix() const;

  /// Gives the tensors of rank 0 to all.
  void share_tensors(Executable& executable) const;
  /// Throws Error (exit 78) on a rank whose recipe, program or plan is not that of rank 0.
  void require_same(const Recipe& recipe, const Plan& plan) const;

 private:
  Identity identity_;
  std::unique_ptr<Communicator> communicator_;
};

/// Where parallelism.data is a number: the recipe's share of a step for a rank of so many, without any other.
/// Throws Error (exit 78) where they cannot share a step evenly.
void plan_ranks(Recipe& recipe);

/// How many ranks this process has to start itself: parallelism.data, unless a launcher has started this one.
/// Throws Error (exit 78) as plan_ranks does.
int64_t ranks_to_start(const Recipe& recipe);

/// Throws Error (exit 64) where a launcher has started several processes of what one does.
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
  const Ranks& ranks_;
  Executable& executable_;
  Checkpointer* own_;
  CheckpointPolicy policy_;
};

}  // namespace trainer
