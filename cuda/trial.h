// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/dtype.h"
#include "cuda/timing.h"

namespace trainer::cuda {

// runtime.autotune times candidates on the same input and compares their results. On an H200, engine 2 of
// cuDNN 9.19 computed a wrong gradient of weights whose features are not a multiple of eight.

/// Device memory with the same random numbers every time, from -1 to 1.
DeviceMemory filled_memory(int64_t elements, DType dtype, cudaStream_t stream);

/// The beginning and the end of a result in device memory.
std::vector<float> ends_of(const void* result, int64_t elements, DType dtype, cudaStream_t stream);

/// Whether two results differ by no more than rounding explains.
bool agree(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace trainer::cuda
