// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/grid.h"
#include "cuda/reduce.h"

namespace trainer::cuda {

// The threads that process a row: a warp, or for a wide one a block. Threads of a warp team without a row may
// leave at once; those of a block team have the same row.

struct WarpTeam {
  static constexpr int kSize = kWarp;
  static constexpr int kTeams = kThreads / kWarp;

  static dim3 grid(int64_t rows) { return dim3(static_cast<unsigned>((rows + kTeams - 1) / kTeams)); }
  static __device__ int64_t row() { return int64_t{blockIdx.x} * kTeams + threadIdx.x / kWarp; }
  static __device__ int member() { return static_cast<int>(threadIdx.x) % kWarp; }
  /// Barrier of all members.
  static __device__ void wait() { __syncwarp(); }
  /// f over the members' values, for all of them, in one order; f must be commutative.
  template <class T, class F>
  static __device__ T reduce(T value, const F& f) {
    return warp_reduce(value, f);
  }
  template <class T>
  static __device__ T sum(T value) {
    return warp_sum(value);
  }
};

struct BlockTeam {
  static constexpr int kSize = kThreads;
  static constexpr int kTeams = 1;

  static dim3 grid(int64_t rows) { return dim3(static_cast<unsigned>(rows)); }
  static __device__ int64_t row() { return blockIdx.x; }
  static __device__ void wait() { __syncthreads(); }
  static __device__ int member() { return static_cast<int>(threadIdx.x); }
  template <class T, class F>
  static __device__ T reduce(T value, const F& f) {
    TRAINER_SHARED(T, of_warp, [kThreads / kWarp]);
    value = warp_reduce(value, f);
    __syncthreads();  // the previous call's values have been read
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = of_warp[0];
    for (int warp = 1; warp < kThreads / kWarp; ++warp) value = f(value, of_warp[warp]);
    return value;
  }
  template <class T>
  static __device__ T sum(T value) {
    return reduce(value, [](T a, T b) { return a + b; });
  }
};

/// visit(first element, fetch(first element)) for each octet of a row that this member takes. Several are
/// fetched before the first is used, so that enough loads are in flight.
template <class Team, class Fetch, class Visit>
__device__ inline void for_octets(int64_t width, const Fetch& fetch, const Visit& visit) {
  constexpr int kAtOnce = 3;
  constexpr int64_t kStep = int64_t{Team::kSize} * Octet::kSize;
  for (int64_t first = Team::member() * Octet::kSize; first < width; first += kAtOnce * kStep) {
    decltype(fetch(first)) fetched[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * kStep < width) fetched[k] = fetch(first + k * kStep);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * kStep < width) visit(first + k * kStep, fetched[k]);
    }
  }
}

/// Calls visit(team) with the team for rows of this width: with a block once each of a warp's threads would
/// have more than four octets.
template <class Visit>
auto with_team(int64_t width, const Visit& visit) {
  constexpr int64_t kWidestOfWarp = 4 * kWarp * Octet::kSize;
  return width <= kWidestOfWarp ? visit(WarpTeam{}) : visit(BlockTeam{});
}

}  // namespace trainer::cuda
