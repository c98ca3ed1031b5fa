// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"

namespace trainer::cuda {

/// Images with their channels last: (samples, pixels, channels) of a floating type.
struct Images {
  int64_t samples, pixels, channels;
  DType dtype;
};

/// y = x * s with a number for each channel of each sample, (samples, channels) of the same type.
cudaError_t launch_scale_channels(const Images& images, const void* x, const void* s, void* y,
                                  cudaStream_t stream);
/// y = x + b with a number for each channel.
cudaError_t launch_add_channels(const Images& images, DType b_dtype, const void* x, const void* b, void* y,
                                cudaStream_t stream);
/// (samples, channels): factor times the sum over each image of x, or of x * other if there is one.
cudaError_t launch_image_sums(const Images& images, float factor, const void* x, const void* other,
                              void* sums, cudaStream_t stream);

}  // namespace trainer::cuda
