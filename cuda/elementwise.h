// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/graph/ops/elementwise.h"

namespace trainer::cuda {

// Each puts one loop over `count` f32 elements on the stream; an output may be one of the inputs.

/// y = f(x)
cudaError_t launch_unary(const elementwise::Function& f, const float* x, float* y, int64_t count,
                         cudaStream_t stream);
/// dx = dy * f'(saved), saved being x or y, whichever f reads
cudaError_t launch_unary_backward(const elementwise::Function& f, const float* dy, const float* saved,
                                  float* dx, int64_t count, cudaStream_t stream);
/// y = a + b
cudaError_t launch_add(const float* a, const float* b, float* y, int64_t count, cudaStream_t stream);
/// y = a * b
cudaError_t launch_mul(const float* a, const float* b, float* y, int64_t count, cudaStream_t stream);

}  // namespace trainer::cuda
