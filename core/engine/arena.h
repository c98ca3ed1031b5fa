// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace trainer {

/// A cache line, and the width of the widest vector.
constexpr int64_t kArenaAlignment = 64;
int64_t align_up(int64_t bytes, int64_t alignment = kArenaAlignment);

/// Bytes needed from step `first` to step `last`, both included.
struct Lifetime {
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
  int64_t alignment = kArenaAlignment;  ///< of its offset: a multiple of kArenaAlignment
};

struct Arrangement {
  std::vector<int64_t> offsets;  ///< one per lifetime
  int64_t bytes = 0;             ///< end of the last one
};

/// Offsets such that lifetimes that overlap in time never overlap in memory. Up to five orders are tried,
/// such as largest, longest and earliest first. Each lifetime goes into the smallest gap that holds it
/// (Pisarchyk, Lee, "Efficient memory management for deep neural net inference", 2020). Each order is
/// improved by placing the topmost lifetime earlier (squeaky wheel optimisation: Joslin, Clements, 1999). The
/// best arrangement is taken. The search ends at the first within a thousandth of the lower bound. More than
/// 3,000 lifetimes get fewer attempts per order.
Arrangement arrange(const std::vector<Lifetime>& lifetimes);

/// The bytes alive at the first step of each lifetime, each lifetime's rounded up to the alignment.
std::vector<int64_t> live_bytes(const std::vector<Lifetime>& lifetimes);

/// The largest sum of bytes alive at one step, each rounded up to the alignment: no arrangement needs less.
int64_t lower_bound_bytes(const std::vector<Lifetime>& lifetimes);

}  // namespace trainer
