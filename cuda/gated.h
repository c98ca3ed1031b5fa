// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"
#include "core/graph/ops/elementwise.h"

namespace trainer::cuda {

// Each enqueues one loop over `count` elements of a floating type; an output may be one of the inputs.

/// y = f(gate) * x
cudaError_t launch_gated(const elementwise::Function& f, DType dtype, const void* gate, const void* x,
                         void* y, int64_t count, cudaStream_t stream);
/// dx = dy * f(gate), dgate = dy * x * f'(gate); dx may be nullptr
cudaError_t launch_gated_backward(const elementwise::Function& f, DType dtype, const void* dy,
                                  const void* gate, const void* x, void* dgate, void* dx, int64_t count,
                                  cudaStream_t stream);

}  // namespace trainer::cuda
