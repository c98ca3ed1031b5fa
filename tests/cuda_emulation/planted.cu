// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch.h"
#include "tests/cuda_emulation/planted.h"

namespace trainer::emulation {
namespace {

using cuda::wait_for_previous_kernels;

constexpr int kBlock = 64;

/// Sums neighbours through shared memory, twice; `Bug` says which barrier is missing or wrong.
enum class Barrier { all_right, none_at_first, none_before_reuse, half, two_places };

template <Barrier bug>
__global__ void neighbours(float* x) {
  wait_for_previous_kernels();
  TRAINER_SHARED(float, part, [kBlock]);
  const int i = static_cast<int>(threadIdx.x);
  part[i] = x[i];
  if (bug == Barrier::two_places && i % 2 == 0) {
    __syncthreads();
  } else if (bug != Barrier::none_at_first && (bug != Barrier::half || i < kBlock / 2)) {
    __syncthreads();
  }
  const float first = part[(i + 1) % kBlock];
  if (bug != Barrier::none_before_reuse) __syncthreads();
  part[i] = first;
  __syncthreads();
  x[i] = part[(i + 1) % kBlock];
}

__global__ void beyond_the_end(float* x, int count) {
  wait_for_previous_kernels();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i <= count) x[i] = 1;
}

__global__ void reads_unset(float* x, int count) {
  wait_for_previous_kernels();
  x[threadIdx.x] = x[count / 2 + static_cast<int>(threadIdx.x)];
}

__global__ void beyond_shared(float* x) {
  wait_for_previous_kernels();
  TRAINER_SHARED(float, part, [kBlock]);
  part[threadIdx.x + 1] = 1;
  x[threadIdx.x] = part[threadIdx.x + 1];
}

__global__ void misaligned(float* x) {
  wait_for_previous_kernels();
  *reinterpret_cast<uint2*>(x + 1) = uint2{};
}

__global__ void reads_early(float* x) {
  const float old = x[threadIdx.x];
  wait_for_previous_kernels();
  x[threadIdx.x] = old + 1;
}

__global__ void never_waits(float*) {}

__global__ void blocks_write_one_place(float* x) {
  wait_for_previous_kernels();
  x[threadIdx.x] = static_cast<float>(blockIdx.x);
}

template <bool kAtomic>
__global__ void count_up(float* x) {
  wait_for_previous_kernels();
  if (kAtomic) {
    atomicAdd(x, 1.0f);
  } else {
    *x += 1;
  }
}

/// Every block writes its numbers and the last one to arrive adds them up; x[0] counts the blocks.
enum class Last { all_right, no_barrier_first, no_fence_before, no_fence_behind };

template <Last bug>
__global__ void last_adds_up(float* x) {
  wait_for_previous_kernels();
  TRAINER_SHARED(bool, last, [1]);
  const int i = static_cast<int>(threadIdx.x), blocks = static_cast<int>(gridDim.x);
  float* of_blocks = x + 2 + kBlock;
  if (i < 4) of_blocks[4 * static_cast<int>(blockIdx.x) + i] = 1;
  if (bug != Last::no_barrier_first) __syncthreads();
  if (i == kBlock - 1) {
    if (bug != Last::no_fence_before) __threadfence();
    last[0] = atomicAdd(x, 1.0f) == static_cast<float>(blocks);  // it began as 1
    if (bug != Last::no_fence_behind) __threadfence();
  }
  __syncthreads();
  if (last[0] && i < 4 * blocks) x[2 + i] = of_blocks[i];
}

enum class Lanes { all_right, some_have_ended, mask_leaves_out, source_left_out };

template <Lanes bug>
__global__ void shuffle_lanes(float* x) {
  wait_for_previous_kernels();
  const int lane = static_cast<int>(threadIdx.x);
  if (bug == Lanes::some_have_ended && lane >= 20) return;
  const unsigned mask = bug == Lanes::mask_leaves_out ? 0xFFFFu : 0xFFFFFFFFu;
  if (bug == Lanes::source_left_out) {
    if (lane < 16) x[lane] = __shfl_down_sync(0xFFFFu, x[lane], 8);
  } else {
    x[lane] = __shfl_xor_sync(mask, x[lane], 16);
  }
}

template <bool kSync>
__global__ void warp_exchange(float* x) {
  wait_for_previous_kernels();
  TRAINER_SHARED(float, part, [32]);
  const int lane = static_cast<int>(threadIdx.x);
  part[lane] = x[lane];
  if (kSync) __syncwarp();
  x[lane] = part[lane ^ 1];
}

template <auto kernel, int kBlocks = 1, int kThreads = kBlock>
void start(float* memory, int) {
  static_cast<void>(cuda::launch(kernel, dim3(kBlocks), dim3(kThreads), nullptr, memory));
}

template <auto kernel>
void start_counted(float* memory, int count) {
  const auto blocks = static_cast<unsigned>(count / kBlock + 1);
  static_cast<void>(cuda::launch(kernel, dim3(blocks), dim3(kBlock), nullptr, memory, count));
}

void start_on_the_host(float*, int) {
  float host[kBlock] = {};
  start<neighbours<Barrier::all_right>>(host, kBlock);
}

void start_all_right(float* memory, int count) {
  start<neighbours<Barrier::all_right>>(memory, count);
  start<warp_exchange<true>, 1, 32>(memory, count);
  start<shuffle_lanes<Lanes::all_right>, 1, 32>(memory, count);
  start<count_up<true>, 3>(memory, count);
}

}  // namespace

std::vector<PlantedBug> planted_bugs() {
  return {
      {"no barrier between write and read", "race", true, start<neighbours<Barrier::none_at_first>>},
      {"no barrier before reuse", "race", true, start<neighbours<Barrier::none_before_reuse>>},
      {"half a block at a barrier", "deadlock", false, start<neighbours<Barrier::half>>},
      {"one barrier in two places", "divergence", false, start<neighbours<Barrier::two_places>>},
      {"one element too many", "bounds", true, start_counted<beyond_the_end>},
      {"memory that was never set", "uninitialised", true,
       [](float* memory, int count) {
         static_cast<void>(cuda::launch(reads_unset, dim3(1), dim3(kBlock), nullptr, memory, count));
       }},
      {"behind a shared variable", "bounds", true, start<beyond_shared>},
      {"8 bytes that begin at 4", "alignment", true, start<misaligned, 1, 1>},
      {"a read before the kernels before have ended", "early", true, start<reads_early>},
      {"no wait for the kernels before", "early", false, start<never_waits>},
      {"two blocks write one place", "race", true, start<blocks_write_one_place, 2>},
      {"a count that is not atomic", "race", true, start<count_up<false>>},
      {"a last block without barrier before", "race", true, start<last_adds_up<Last::no_barrier_first>, 3>},
      {"a last block without fence before", "race", true, start<last_adds_up<Last::no_fence_before>, 3>},
      {"a last block without fence behind", "race", true, start<last_adds_up<Last::no_fence_behind>, 3>},
      {"a last block that is right", "", false, start<last_adds_up<Last::all_right>, 3>},
      {"lanes that have ended", "deadlock", false, start<shuffle_lanes<Lanes::some_have_ended>, 1, 32>},
      {"a mask without the caller", "warp", false, start<shuffle_lanes<Lanes::mask_leaves_out>, 1, 32>},
      {"a lane outside the mask", "warp", false, start<shuffle_lanes<Lanes::source_left_out>, 1, 32>},
      {"no __syncwarp", "race", true, start<warp_exchange<false>, 1, 32>},
      {"memory of the host", "bounds", true, start_on_the_host},
      {"nothing wrong", "", false, start_all_right},
  };
}

}  // namespace trainer::emulation
