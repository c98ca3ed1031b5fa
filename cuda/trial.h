// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/dtype.h"
#include "cuda/timing.h"

namespace trainer::cuda {

// Candidates for a timing get the same numbers, so that one that computes something else is found. Engine 2
// of cuDNN 9.19 did, for gradients of weights whose channels are not a multiple of eight, on an H200.

/// Device memory with the same numbers every time, between -1 and 1.
DeviceMemory filled_memory(int64_t elements, DType dtype, cudaStream_t stream);

/// The first and the last numbers of a result that lies in device memory.
std::vector<float> ends_of(const void* result, int64_t elements, DType dtype, cudaStream_t stream);

/// Whether two results may come from the same numbers, by kernels that round otherwise.
bool agree(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace trainer::cuda
