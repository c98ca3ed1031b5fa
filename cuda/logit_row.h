// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/math.h"
#include "cuda/launch.h"
#include "cuda/loss.h"
#include "cuda/team.h"

namespace trainer::cuda {

// Of one row of logits, by all members of a team together (cuda/team.h).

/// Rows with sums that one block adds up: enough to repay the launch of a block, few enough for many blocks;
/// a wide row is enough work for a block.
template <class Team>
constexpr int64_t kRowsOfBlock = Team::kTeams == 1 ? 1 : 8 * Team::kTeams;
template <class Team>
int64_t blocks_of_rows(int64_t rows) {
  return (rows + kRowsOfBlock<Team> - 1) / kRowsOfBlock<Team>;
}

/// visit(first class, its logits and the next ones', how many) for each piece of the row, pieces being shared
/// out among the members: eight logits that are aligned, and fewer at both ends. So many whole pieces are
/// fetched before the first is used, so that enough loads are in flight.
template <class Team, int kAtOnce = 2, class T, class Visit>
__device__ inline void visit_logits(const T* row, int64_t classes, const Visit& visit) {
  constexpr auto kAligned = static_cast<int64_t>(sizeof(Word<T>) / sizeof(T));
  const auto behind = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) / sizeof(T)) % kAligned;
  const int64_t rest = behind == 0 ? 0 : kAligned - behind, head = rest < classes ? rest : classes;
  const int64_t ahead = head == 0 ? 0 : Octet::kSize - head;  // where the first piece would begin
  const int64_t pieces = (ahead + classes + Octet::kSize - 1) / Octet::kSize;
  int64_t piece = Team::member();
  while (piece < pieces) {
    const int64_t begin = piece * Octet::kSize - ahead, end = begin + Octet::kSize;
    if (kAtOnce > 1 && begin >= 0 && end + (kAtOnce - 1) * int64_t{Team::kSize} * Octet::kSize <= classes) {
      Stored<T> fetched[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        fetched[k] = fetch_words(row + begin + k * int64_t{Team::kSize} * Octet::kSize);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        visit(begin + k * int64_t{Team::kSize} * Octet::kSize, to_floats(fetched[k]), Octet::kSize);
      piece += kAtOnce * Team::kSize;
    } else {
      const int64_t first = begin < 0 ? 0 : begin, count = (end < classes ? end : classes) - first;
      visit(first, load(row + first, count), static_cast<int>(count));
      piece += Team::kSize;
    }
  }
}

struct Softmax {
  float largest, sum;  ///< of the row's logits; of exp(x - largest)

  /// The same sum for a larger logit.
  __device__ float sum_below(float larger) const {
    return largest == larger ? sum : sum * math::exp(largest - larger);
  }
};

/// Reads the row once, and gives also(first class, its logits and the next ones', how many) each piece.
template <class Team, int kAtOnce = 2, class T, class Also>
__device__ inline Softmax softmax(const T* row, int64_t classes, const Also& also) {
  Softmax own{-INFINITY, 0.0f};
  visit_logits<Team, kAtOnce>(row, classes, [&](int64_t first, const Octet& x, int count) {
    also(first, x, count);
    float largest = own.largest;
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) largest = i < count ? Larger{}(largest, x.v[i]) : largest;
    own.sum = own.sum_below(largest);
    own.largest = largest;
    if (largest == -INFINITY) return;
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) own.sum += i < count ? math::exp(x.v[i] - largest) : 0.0f;
  });
  const float largest = Team::reduce(own.largest, Larger{});
  return {largest, Team::sum(own.sum_below(largest))};
}

/// For the gradient of the row's loss, if that is wanted.
template <class Team>
__device__ inline void keep(const Softmax& of_row, const SoftmaxOfRows& kept, int64_t row) {
  if (Team::member() != 0) return;
  if (kept.largest != nullptr) kept.largest[row] = of_row.largest;
  if (kept.sum != nullptr) kept.sum[row] = of_row.sum;
}

}  // namespace trainer::cuda
