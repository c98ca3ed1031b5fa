// SPDX-License-Identifier: Apache-2.0
#pragma once

// Included by every .cu, and by nothing else. Where a test compiles kernels for the CPU, the macro names what
// stands in CUDA's place.
#ifdef TRAINER_EMULATED_DEVICE
#include TRAINER_EMULATED_DEVICE
#else

#include <cuda_runtime.h>

/// TRAINER_SHARED(float, tile, [32][33]): one variable for all threads of a block.
#define TRAINER_SHARED(type, name, ...) __shared__ type name __VA_ARGS__

namespace trainer::cuda {

/// A table that all threads read is `const Table __grid_constant__ table`, in this order.
///
/// The only way a kernel is started, so that every launch can be checked, and replaced where there is no GPU.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
                   Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

}  // namespace trainer::cuda

#endif
