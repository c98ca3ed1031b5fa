// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/mesh.h"
#include "core/data/order.h"
#include "core/recipe/recipe.h"
#include "core/step/stage_cuts.h"

namespace trainer {

/// A recipe's meaning in one process of a run: the recipe with all open values resolved. It never changes.
/// Code that finds out more, such as a micro-batch that fits, makes another one.
class RunSpec {
 public:
  /// A process that trains alone: the recipe's meaning by itself.
  RunSpec(std::shared_ptr<const Recipe> recipe);  // NOLINT(google-explicit-constructor)
  /// Rank `rank.rank` of `rank.ranks`; `ranks_on_host` of them share this host. Throws Error (exit 78) if the
  /// ranks cannot share a batch or the parameters, or if the shapes of layers do not fit.
  RunSpec(std::shared_ptr<const Recipe> recipe, RankShare rank, int64_t ranks_on_host = 1);

  /// The same run with another number of samples per micro-batch. Training requires a divisor of the rank's
  /// samples.
  RunSpec with_micro_batch(int64_t samples) const;
  /// Numbers of samples that a micro-batch of training may have, descending: the divisors of the rank's
  /// samples; of a pipeline those that make enough micro-batches for its schedule.
  std::vector<int64_t> possible_micro_batches() const;

  const Recipe& recipe() const { return *recipe_; }
  /// The samples of a step. While `searches_micro_batch()`, a micro-batch has all samples of a rank.
  const BatchSplit& batch() const { return batch_; }
  /// The rank with the same samples and parts in another stage of the pipeline.
  RunSpec in_stage(int64_t stage) const;
  /// The same as it is loaded: ranks of a pipeline read all micro-batches of a step at once.
  BatchSplit loaded_batch() const;
  /// The order in which the stages of a pipeline compute the micro-batches.
  PipelineSchedule schedule() const;
  /// How ranks share the network by layers.
  PipelineSpec pipeline() const;
  int64_t rank() const { return rank_; }
  int64_t ranks() const { return mesh_.ranks(); }
  /// All ranks, and what they share.
  const Mesh& mesh() const { return mesh_; }
  int64_t ranks_on_host() const { return ranks_on_host_; }
  /// The shape of the network's output for a micro-batch.
  const Shape& output() const { return output_; }
  /// Tokens of a global batch; 0 if the network reads none.
  int64_t tokens_of_batch() const;
  uint64_t seed() const { return static_cast<uint64_t>(recipe_->run.seed); }
  /// Whether training.micro_batch_size is auto and no number has been chosen yet.
  bool searches_micro_batch() const { return searches_micro_batch_; }

 private:
  std::shared_ptr<const Recipe> recipe_;
  Mesh mesh_;
  int64_t rank_ = 0;
  BatchSplit batch_;
  Shape output_;
  int64_t ranks_on_host_ = 1;
  bool searches_micro_batch_;
};

}  // namespace trainer
