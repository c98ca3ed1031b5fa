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

  // Parts of a whole are as long as each other, and follow each other in the order of the ranks. What of the
  // last ones lies beyond the whole does not travel.

  /// Starts to give every rank the parts of all, one after the other.
  virtual void start_all_gather(std::span<const std::byte> own, std::span<std::byte> whole) = 0;
  /// Waits for the gather that was started last, with these arguments.
  virtual void wait_all_gather() = 0;
  /// Starts to give every rank its part of the sum over all ranks. Sets the rest of `own` to zero.
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
