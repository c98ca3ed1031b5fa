// SPDX-License-Identifier: Apache-2.0
#pragma once

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
};

}  // namespace trainer
