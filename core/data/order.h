// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/units.h"
#include "core/data/sample_draw.h"

namespace trainer {

/// The sample at place `index` of an epoch: for each (seed, epoch) a permutation of [0, size), in O(1)
/// memory.
int64_t shuffled_index(uint64_t seed, int64_t epoch, int64_t index, int64_t size);

/// Blocks of adjacent samples that an epoch takes in random order, mixing the samples of a window of blocks.
struct ShuffleBlocks {
  int64_t block = 0;   ///< samples of a block; 0: an epoch takes all samples in any order
  int64_t window = 0;  ///< blocks
  bool any() const { return block > 0; }
};

/// The same by blocks. Blocks begin elsewhere in each epoch, so that the samples left after the last whole
/// block differ; these are in the last window.
int64_t shuffled_in_blocks(uint64_t seed, int64_t epoch, int64_t index, int64_t size,
                           const ShuffleBlocks& blocks);

/// Which samples a training step takes: a pure function of the step, whatever the hardware.
/// With drop_last an epoch is size / global_batch whole batches; otherwise epochs follow one another without
/// a gap. An epoch takes each sample once, or as many draws as there are samples.
class TrainingOrder {
 public:
  /// Throws Error (exit 78) if drop_last would leave no batch. With `draw` samples are drawn by weight.
  TrainingOrder(int64_t size, int64_t global_batch, bool drop_last,
                std::shared_ptr<const SampleDraw> draw = nullptr, const ShuffleBlocks& blocks = {});

  struct Position {
    int64_t epoch;
    int64_t index;  ///< in the epoch's order
  };
  /// The sample number `i` of [0, global_batch) of a step.
  Position at(int64_t step, int64_t i) const;

  /// The sample at a position.
  int64_t sample(uint64_t seed, const Position& position) const;
  /// With blocks: calls expect(first, count) for each block that the order reaches one window after this
  /// step, so that its samples can be prefetched in one read. A block that wraps around to sample 0 is given
  /// up to the last sample only.
  void for_each_next_block(uint64_t seed, int64_t step,
                           const std::function<void(int64_t first, int64_t count)>& expect) const;
  /// Whether a sample may come several times in an epoch.
  bool draws() const { return draw_ != nullptr; }

  int64_t size() const { return size_; }
  int64_t global_batch() const { return global_batch_; }
  /// Steps until all `epochs` epochs are done, without their dropped remainders. Not exact if 63 bits cannot
  /// count the samples: more steps than any run has.
  int64_t steps_in(int64_t epochs) const;
  /// Of batches with this many tokens.
  int64_t steps_in(const Duration& duration, int64_t tokens_of_batch = 0) const;

 private:
  int64_t size_, global_batch_;
  bool drop_last_;
  std::shared_ptr<const SampleDraw> draw_;
  ShuffleBlocks blocks_;
};

/// The process's share among those that train together. Each makes its part of a step's micro-batches
/// (BatchSplit), and those evaluation batches with a number that leaves this rank as remainder.
struct RankShare {
  int64_t rank = 0, ranks = 1;
};

/// How the samples of a training step are divided: among ranks, and each rank's into micro-batches.
struct BatchSplit {
  int64_t global_batch = 1;
  int64_t micro_batch = 1;  ///< samples that a rank computes at once
  RankShare share = {};     ///< of this process

  /// A step's micro-batches go to the ranks in order; the first ranks have one more if they do not divide
  /// evenly.
  int64_t micro_batches_of(int64_t rank) const {
    const int64_t all = global_batch / micro_batch;
    return all / share.ranks + (rank < all % share.ranks ? 1 : 0);
  }
  int64_t micro_batches() const { return micro_batches_of(share.rank); }  ///< of this rank in a step
  int64_t rank_batch() const { return micro_batches() * micro_batch; }
  /// The first of this rank's.
  int64_t first_micro_batch() const {
    int64_t first = 0;
    for (int64_t rank = 0; rank < share.rank; ++rank) first += micro_batches_of(rank);
    return first;
  }
  /// Of each rank.
  std::vector<int64_t> shares() const {
    std::vector<int64_t> counts;
    for (int64_t rank = 0; rank < share.ranks; ++rank) counts.push_back(micro_batches_of(rank));
    return counts;
  }
  bool is_even() const { return global_batch / micro_batch % share.ranks == 0; }
};

/// Batches in the order of training. Each step is global_batch / micro_batch micro-batches.
struct TrainingBatches {
  uint64_t seed;  ///< of the run
  TrainingOrder order;
  int64_t micro_batch;
  int64_t first_step = 0;
  RankShare share = {};
  /// Of ranks that take turns: the rows of a turn, so that the samples that all compute at once are adjacent
  /// in the step. A micro-batch may have several turns. 0: the first rank makes the first micro-batches, and
  /// so on.
  int64_t turn = 0;
};

/// Which sample a row of a batch holds.
struct RowPlace {
  static constexpr int64_t kPadding = -1;  ///< the sample of a row that holds none

  int64_t step = 0;   ///< evaluation: number of the batch
  int64_t index = 0;  ///< of the row: training: within the global batch, evaluation: within the batch
  int64_t sample = kPadding, epoch = 0;
  int64_t draw = 0;  ///< training: distinguishes the samples of an epoch, also one that comes several times
};

/// Row `index` of [0, global batch) of a training step.
RowPlace shuffled_place(uint64_t seed, const TrainingOrder& order, int64_t step, int64_t index);

}  // namespace trainer
