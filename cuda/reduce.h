// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/launch.h"

namespace trainer::cuda {

// Sums in one order, regardless of the threads' order. All lanes of a warp, or all threads of a block, call
// these together.

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

/// f over the values of all lanes, for every lane; f must be commutative.
template <class T, class F>
__device__ inline T warp_reduce(T value, const F& f) {
  for (int step = kWarp / 2; step > 0; step /= 2) value = f(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

/// The larger one; NaN if either is, so that it reaches the result.
struct Larger {
  __device__ float operator()(float a, float b) const { return b > a || b != b ? b : a; }
};

template <class T>
__device__ inline T warp_sum(T value) {
  return warp_reduce(value, [](T a, T b) { return a + b; });
}

/// The sum over a block of whole warps, for thread 0 only; it may be called again in a kernel only
/// after a barrier.
template <class T>
__device__ inline T block_sum(T value) {
  TRAINER_SHARED(T, of_warp, [kWarp]);
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) value += of_warp[warp];
  }
  return value;
}

}  // namespace trainer::cuda
