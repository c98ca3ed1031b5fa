// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trainer::cuda {

/// Of a kernel whose blocks have parts of the rows, if there are several parts.
constexpr int64_t kSummingBlocks = 1024;
/// Two for each such block.
constexpr int64_t kCounters = 2 * kSummingBlocks;

/// What a kernel needs whose blocks add up their sums themselves (cuda/last_block.h): its workspace, and
/// counters that are zero before and after, which all such kernels of a stream share.
struct BlockSums {
  void* workspace;
  unsigned* counters;
};

}  // namespace trainer::cuda
