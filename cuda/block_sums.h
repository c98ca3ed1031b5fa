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

}  // namespace trainer::cuda
