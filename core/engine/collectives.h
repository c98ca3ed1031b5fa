// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/mesh.h"

namespace trainer {

/// A tensor in parts of equal length; the whole is the parts in the order of the ranks. Padding at the end of
/// the last parts is not sent.
template <class Own, class Whole>
struct InParts {
  std::span<Own> own;  ///< this rank's part
  std::span<Whole> whole;
};
using Gathered = InParts<const std::byte, std::byte>;
using Scattered = InParts<float, const float>;

/// One end of a message along Axis::pipeline: the position of the other end, and a number. Messages between
/// two ranks with one number arrive in the order in which they were sent.
template <class Byte>
struct Message {
  int64_t peer = 0;
  int64_t number = 0;
  std::span<Byte> bytes;
};
using Sent = Message<const std::byte>;
using Received = Message<std::byte>;

/// What the ranks compute together within a step, on numbers in the memory of their devices. Every rank
/// starts the same collectives, of as many numbers, in the same order, and gets bitwise identical results.
/// Until a collective has been waited for, its inputs may not be written and its outputs may not be read.
/// Each has a number that no other collective in flight has.
class Collectives {
 public:
  virtual ~Collectives() = default;

  /// Starts to add up numbers over the ranks, in place.
  virtual void start_all_reduce(int64_t number, Axis axis, std::span<const std::span<float>> numbers) = 0;
  /// Starts to give every rank the numbers of the `root`-th one along Axis::data, in place.
  virtual void start_broadcast(int64_t number, int64_t root, std::span<const std::span<float>> numbers) = 0;
  /// Starts all-gathers: every rank gets the whole of each tensor.
  virtual void start_all_gather(int64_t number, Axis axis, std::span<const Gathered> tensors) = 0;
  /// Starts reduce-scatters: every rank gets its part of the sum over the ranks. Sets padding in it to zero.
  virtual void start_reduce_scatter(int64_t number, Axis axis, std::span<const Scattered> tensors) = 0;
  /// Starts to send and to receive. The other ends begin theirs in their own collectives; between two ranks
  /// all messages are begun in one order.
  virtual void start_exchange(int64_t number, std::span<const Sent> sent,
                              std::span<const Received> received) = 0;
  /// Waits for the one with this number, if it was started.
  virtual void wait(int64_t number) = 0;
};

/// A rank's part within the whole, perhaps empty.
template <class T>
std::span<T> part_within(std::span<T> whole, size_t part, int64_t rank) {
  const size_t begin = std::min(whole.size(), part * static_cast<size_t>(rank));
  return whole.subspan(begin, std::min(part, whole.size() - begin));
}

}  // namespace trainer
