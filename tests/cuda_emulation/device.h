// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <device_launch_parameters.h>

#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

// Included by cuda/launch.h if g++ compiles a kernel for the emulation: only those names and functions of
// CUDA that our kernels use; others do not compile.

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#undef __forceinline__
#define __global__
#define __device__
#define __host__
#define __shared__ write_TRAINER_SHARED_instead
#define __launch_bounds__(...)
#define __grid_constant__ &  // one for all threads: tables of 32 KiB would be copied for each
#define __forceinline__ inline

/// TRAINER_SHARED(float, tile, [32][33]): one variable for all threads of a block.
#define TRAINER_SHARED(type, name, ...)                                                              \
  struct name##_holder {                                                                             \
    alignas(16) type value __VA_ARGS__;                                                              \
  };                                                                                                 \
  static const char name##_key = 0;                                                                  \
  auto& name = static_cast<name##_holder*>(                                                          \
                   ::trainer::emulation::shared_variable(&name##_key, sizeof(name##_holder::value))) \
                   ->value

namespace trainer::emulation {

/// A call's place in a kernel's text.
struct Place {
  const char* file;
  int line;
  static constexpr Place here(const char* f = __builtin_FILE(), int l = __builtin_LINE()) { return {f, l}; }
};

enum class WarpCall : char { sync, shuffle, shuffle_xor, shuffle_down, shuffle_up, ballot };

void* shared_variable(const void* key, size_t bytes);
void barrier(Place place);
/// Calls that the running thread must have made before it accesses memory of the device, and before it ends.
void wait_for_previous_kernels();
/// Gives `in` (up to 8 bytes) to the warp and takes that of lane `source`; returns a bit for each lane with a
/// true `vote`.
uint32_t exchange(WarpCall call, uint32_t mask, const void* in, void* out, size_t bytes, int source,
                  bool vote, Place place);
int lane();
/// Declares the next access to these bytes as one atomic access.
void atomic_access(const void* address, size_t bytes);
/// Orders blocks, with an atomic access on either side: see memory.cpp.
void memory_fence();

/// A kernel with its arguments; enter(call) copies those that the kernel takes by value.
struct Grid {
  void (*enter)(const void* call) = nullptr;
  void (*destroy)(const void* call) = nullptr;
  const void* call = nullptr;
  size_t call_bytes = 0;
  const void* kernel = nullptr;
};
/// Enqueues it as cudaLaunchKernel does, and finally destroys the call; tests/cuda_standin/ decides when it
/// runs.
cudaError_t launch_grid(cudaStream_t stream, const Grid& grid, dim3 blocks, dim3 threads);
/// Whether a GPU takes a grid of this many blocks of this many threads.
bool is_legal(dim3 blocks, dim3 threads);
void run_grid(const Grid& grid, dim3 blocks, dim3 threads);

template <class T>
T shuffle(WarpCall call, uint32_t mask, T value, int source, Place place) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_destructible_v<T>);
  T received = value;
  exchange(call, mask, &value, &received, sizeof(T), source, false, place);
  return received;
}

// Not instrumented, so that an atomic access is not seen as a plain one too.
template <class T>
__attribute__((no_sanitize("thread"), noinline)) T fetch_and_store(T* address, T (*next)(T, T), T operand) {
  const T old = *address;
  *address = next(old, operand);
  return old;
}

}  // namespace trainer::emulation

// As CUDA's headers declare them; the calling place is an extra argument that callers do not write.
#define TRAINER_PLACE ::trainer::emulation::Place place = ::trainer::emulation::Place::here()

inline void __syncthreads(TRAINER_PLACE) {
  trainer::emulation::barrier(place);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, TRAINER_PLACE) {
  using trainer::emulation::WarpCall;
  trainer::emulation::exchange(WarpCall::sync, mask, nullptr, nullptr, 0, -1, false, place);
}
inline unsigned __ballot_sync(unsigned mask, int vote, TRAINER_PLACE) {
  using trainer::emulation::WarpCall;
  return trainer::emulation::exchange(WarpCall::ballot, mask, nullptr, nullptr, 0, -1, vote != 0, place);
}

// A lane that would take from outside its group of `width` lanes keeps its own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, TRAINER_PLACE) {
  const int lane = trainer::emulation::lane();
  return trainer::emulation::shuffle(trainer::emulation::WarpCall::shuffle, mask, value,
                                     (lane & ~(width - 1)) | (source & (width - 1)), place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, TRAINER_PLACE) {
  const int lane = trainer::emulation::lane(), source = lane ^ bits;
  return trainer::emulation::shuffle(trainer::emulation::WarpCall::shuffle_xor, mask, value,
                                     source <= (lane | (width - 1)) ? source : lane, place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, TRAINER_PLACE) {
  const int lane = trainer::emulation::lane(), source = lane + static_cast<int>(by);
  return trainer::emulation::shuffle(trainer::emulation::WarpCall::shuffle_down, mask, value,
                                     source <= (lane | (width - 1)) ? source : lane, place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, TRAINER_PLACE) {
  const int lane = trainer::emulation::lane(), source = lane - static_cast<int>(by);
  return trainer::emulation::shuffle(trainer::emulation::WarpCall::shuffle_up, mask, value,
                                     source >= (lane & ~(width - 1)) ? source : lane, place);
}

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  trainer::emulation::atomic_access(address, sizeof(T));
  return trainer::emulation::fetch_and_store<T>(
      address, [](T old, T operand) { return static_cast<T>(old + operand); }, value);
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  trainer::emulation::atomic_access(address, sizeof(T));
  return trainer::emulation::fetch_and_store<T>(
      address, [](T old, T operand) { return old < operand ? operand : old; }, value);
}

inline void __threadfence() {
  trainer::emulation::memory_fence();
}

inline int __float_as_int(float value) {
  int bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

namespace trainer::cuda {

inline void wait_for_previous_kernels() {
  emulation::wait_for_previous_kernels();
}

/// Starts a kernel, in place of cuda/launch.h's function.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
                   Arguments&&... arguments) {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<std::decay_t<Parameters>...> parameters;
  };
  const auto enter = [](const void* data) {
    const auto* begun = static_cast<const Call*>(data);
    std::apply(begun->kernel, begun->parameters);
  };
  const auto destroy = [](const void* data) { delete static_cast<const Call*>(data); };
  const auto* call = new Call{kernel, {static_cast<std::decay_t<Parameters>>(arguments)...}};
  return emulation::launch_grid(
      stream, {enter, destroy, call, sizeof(Call), reinterpret_cast<const void*>(kernel)}, grid, block);
}

}  // namespace trainer::cuda
