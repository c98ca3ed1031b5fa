// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace trainer::cuda {

/// Over rows of `classes` numbers, one after the other; y may be x.
cudaError_t launch_softmax(bool log, int64_t rows, int64_t classes, const float* x, float* y,
                           cudaStream_t stream);
/// From dy and y; dx may be either.
cudaError_t launch_softmax_backward(bool log, int64_t rows, int64_t classes, const float* dy, const float* y,
                                    float* dx, cudaStream_t stream);

}  // namespace trainer::cuda
