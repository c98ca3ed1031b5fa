// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trainer {

/// What the ranks compute together within a step, on numbers in the memory of their devices. Every rank
/// starts the same collectives, of as many numbers, in the same order, and gets bitwise identical results.
/// Nothing may read or write the numbers before the collective was waited for.
class Collectives {
 public:
  virtual ~Collectives() = default;

  /// Starts to add up numbers over all ranks, in place.
  virtual void start_all_reduce(int64_t bucket, std::span<const std::span<float>> numbers) = 0;
  /// Waits for the sum of that bucket, which can be started again then.
  virtual void wait_all_reduce(int64_t bucket) = 0;
  /// Starts to give every rank the numbers of rank `root`, in place; one at a time of each root.
  virtual void start_broadcast(int64_t root, std::span<const std::span<float>> numbers) = 0;
  /// Waits for the numbers of that rank.
  virtual void wait_broadcast(int64_t root) = 0;

  // Every rank's part of a tensor has the same length; the whole is the parts in the order of the ranks.
  // Padding at the end of the last parts is not sent.

  /// Starts an all-gather: every rank gets the whole.
  virtual void start_all_gather(std::span<const std::byte> own, std::span<std::byte> whole) = 0;
  /// Waits for the all-gather that was started last; one at a time.
  virtual void wait_all_gather() = 0;
  /// Starts a reduce-scatter: every rank gets its part of the sum over all ranks. Sets padding in `own` to
  /// zero.
  virtual void start_reduce_scatter(std::span<const float> whole, std::span<float> own) = 0;
  virtual void wait_reduce_scatter() = 0;
};

/// A rank's part within the whole, perhaps empty.
template <class T>
std::span<T> part_within(std::span<T> whole, size_t part, int64_t rank) {
  const size_t begin = std::min(whole.size(), part * static_cast<size_t>(rank));
  return whole.subspan(begin, std::min(part, whole.size() - begin));
}

}  // namespace trainer
