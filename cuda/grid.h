// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/launch.h"
#include "cuda/storage.h"

namespace trainer::cuda {

/// Eight warps, enough to hide latency at any register count.
constexpr int kThreads = 256;
/// Blocks that a multiprocessor holds at least, for kernels of many registers. Without it ptxas uses fewer
/// than are available, and spills some.
constexpr int kFewBlocks = 2;

/// A grid with threads that take eight of `count` elements each, and advance by all_elements() beyond the
/// most blocks.
inline dim3 blocks_for(int64_t count) {
  constexpr int64_t kEach = int64_t{kThreads} * Octet::kSize, kMostBlocks = 65535;
  return dim3(static_cast<unsigned>(std::clamp<int64_t>((count + kEach - 1) / kEach, 1, kMostBlocks)));
}

__device__ inline int64_t first_element() {
  return (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * Octet::kSize;
}
__device__ inline int64_t all_elements() {
  return static_cast<int64_t>(gridDim.x) * blockDim.x * Octet::kSize;
}

}  // namespace trainer::cuda
