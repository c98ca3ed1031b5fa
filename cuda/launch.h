// SPDX-License-Identifier: Apache-2.0
#pragma once

// Included by every .cu, and by nothing else. If a test compiles kernels for the CPU, the macro names the
// replacement for CUDA.
#ifdef TRAINER_EMULATED_DEVICE
#include TRAINER_EMULATED_DEVICE
#else

#include <cuda_runtime.h>

#include "cuda/early_launch.h"

/// TRAINER_SHARED(float, tile, [32][33]): one variable for all threads of a block.
#define TRAINER_SHARED(type, name, ...) __shared__ type name __VA_ARGS__

namespace trainer::cuda {

/// Every kernel begins with it. Waits until the kernels before have ended, and lets the next one be started:
/// from compute capability 9 on that happens while this one runs (programmatic dependent launch).
__device__ inline void wait_for_previous_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Whether a kernel was compiled to wait by itself, and a captured step may say so (CUDA 12.3). Code compiled
/// from PTX of an older architecture does not wait, on any GPU.
inline bool waits_by_itself(const void* kernel) {
  constexpr int kFirstArchitecture = 90, kFirstRelease = 12030;
  cudaFuncAttributes attributes{};
  int driver = 0;
  return CUDART_VERSION >= kFirstRelease && cudaDriverGetVersion(&driver) == cudaSuccess &&
         driver >= kFirstRelease && cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess &&
         attributes.ptxVersion >= kFirstArchitecture;
}

/// A table that all threads read is `const Table __grid_constant__ table`, in this order.
///
/// The only way a kernel is started, so that every launch can be checked, and replaced if there is no GPU.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
                   Arguments&&... arguments) {
  // Queried once for each list of parameters: all kernels are compiled for the same architectures, and a
  // process uses one GPU.
  static const bool waits = waits_by_itself(reinterpret_cast<const void*>(kernel));
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = waits && starts_early() ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

}  // namespace trainer::cuda

#endif

namespace trainer::cuda {

/// ptxas takes more registers for sm_120, whose multiprocessors need fewer bytes in flight.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
constexpr bool kHasRegistersForMore = false;
#else
constexpr bool kHasRegistersForMore = true;
#endif

}  // namespace trainer::cuda
