// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trainer::cuda {

/// For a kernel with parts of the rows as blocks, if there are several parts.
constexpr int64_t kSummingBlocks = 1024;
/// Two for each such block.
constexpr int64_t kCounters = 2 * kSummingBlocks;

/// For a kernel with blocks that add up their sums themselves (cuda/last_block.h): its workspace, and
/// counters that are zero before and after. All kernels of this kind on a stream share the counters.
struct BlockSums {
  void* workspace;
  unsigned* counters;
};

/// The memory of the counters ends with a number for the host: how often kernels lost a variance
/// (is_variance_lost in core/base/moments.h).
using LostVariances = unsigned long long;
constexpr int64_t kCounterBytes =
    kCounters * static_cast<int64_t>(sizeof(unsigned)) + static_cast<int64_t>(sizeof(LostVariances));
inline LostVariances* lost_variances(unsigned* counters) {
  return reinterpret_cast<LostVariances*>(counters + kCounters);
}

}  // namespace trainer::cuda
