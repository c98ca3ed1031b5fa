// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>

#include "core/engine/process_group.h"
#include "cpu/columns.h"
#include "cpu/handler.h"

// Shared parts of batch normalisation on one rank and on several: the passes that compute moments, and the
// table that ranks exchange (core/graph/ops/sync_batch_norm.h).

namespace trainer::cpu {

/// Count, mean and sum of squared deviations of each column.
struct Moments {
  std::array<double, kColumns> count, mean, squares;

  /// Chan, Golub, LeVeque 1979: the moments of two samples together.
  void merge(size_t s, double n, double other_mean, double other_squares) {
    if (n == 0) return;
    const double total = count[s] + n, delta = other_mean - mean[s];
    mean[s] += delta * n / total;
    squares[s] += other_squares + delta * delta * count[s] * n / total;
    count[s] = total;
  }
};

void measure_moments(const float* x, int64_t count, Moments& moments);
void measure_moments(const BFloat16* x, int64_t count, Moments& moments);

/// Mean and biased variance of a channel.
struct ChannelMoments {
  double mean, variance;
};
/// From the records of a block's pieces.
ChannelMoments moments_of(const ChannelBlocks& blocks, const Moments* records, int64_t lane);

/// Inputs of the gradient: dy, perhaps a second one to be added, and the bits of the mask if a relu masks
/// them.
template <class T>
struct Operands {
  const T *dy, *dy2, *x;
  const int32_t* mask;

  Operands from(const Piece& p) const {
    return {dy + p.offset, dy2 == nullptr ? nullptr : dy2 + p.offset, x + p.offset,
            mask == nullptr ? nullptr : mask + p.bits};
  }
  float slope(int64_t i) const {
    const float sum = float(dy[i]) + (dy2 == nullptr ? 0.0f : float(dy2[i]));
    return mask != nullptr && !has_bit(mask, i / kColumns, static_cast<size_t>(i % kColumns)) ? 0.0f : sum;
  }
};

/// Sixteen of Operands::slope.
template <class T>
inline __attribute__((always_inline)) void load_slope(const Operands<T>& in, int64_t i, Row& slope) {
  load(in.dy + i, slope);
  if (in.dy2 != nullptr) {
    Row other;
    load(in.dy2 + i, other);
    slope += other;
  }
  if (in.mask != nullptr) keep_masked(in.mask, i / kColumns, slope);
}

/// Sums of the slope and of slope * (x - mean) of each column.
struct Slopes {
  std::array<double, kColumns> slope, product;
};

/// With `masked` the slope is written there: it is the residual's gradient.
void measure_slopes(const float* mean_of, const Operands<float>& in, float* masked, int64_t count,
                    Slopes& totals);
void measure_slopes(const float* mean_of, const Operands<BFloat16>& in, BFloat16* masked, int64_t count,
                    Slopes& totals);

/// Of a channel: the sums of dy and of dy * (x - mean).
struct ChannelSums {
  double slope, product;
};
/// From the records of a block's pieces.
ChannelSums sums_of(const ChannelBlocks& blocks, const Slopes* records, int64_t lane);

/// The mean of each column of a block.
std::array<float, kColumns> spread_mean(const ChannelBlocks& blocks, int64_t block, const float* mean_of);

/// The table (R, 2, C) of all ranks, each of which fills its own row.
class RankTable {
 public:
  RankTable(const Shape& shape, const ProcessGroup* group)
      : ranks_(shape[0]), channels_(shape[2]), group_(group) {}

  int64_t ranks() const { return ranks_; }
  float first(const float* table, int64_t rank, int64_t c) const { return table[rank * 2 * channels_ + c]; }
  float second(const float* table, int64_t rank, int64_t c) const {
    return table[(rank * 2 + 1) * channels_ + c];
  }
  /// A rank that computes by itself represents all others.
  void put(float* table, int64_t c, double first, double second) const {
    const int64_t own = group_ == nullptr ? 0 : group_->mesh().coordinate(Axis::data, group_->rank());
    const bool is_alone = group_ != nullptr && group_->skips_collectives();
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const bool is_mine = rank == own || is_alone;
      table[rank * 2 * channels_ + c] = is_mine ? static_cast<float>(first) : 0.0f;
      table[(rank * 2 + 1) * channels_ + c] = is_mine ? static_cast<float>(second) : 0.0f;
    }
  }

 private:
  int64_t ranks_, channels_;
  const ProcessGroup* group_;
};

/// The input in that place, if given.
std::optional<RankTable> table_of(const OpContext& context, size_t input);

}  // namespace trainer::cpu
