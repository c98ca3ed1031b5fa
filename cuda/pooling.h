// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"
#include "core/graph/ops/conv2d.h"

namespace trainer::cuda {

/// Windows over images with their channels last: x (samples, height, width, channels) -> y (samples,
/// out_height, out_width, channels).
struct Windows {
  int64_t samples, channels;
  int height, width, out_height, out_width;
  int kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w;

  Windows(const Conv2dGeometry& geometry, const Shape& x, const Shape& y);
};

// Each over all elements of a floating type; places are u8, nullptr if not needed.
cudaError_t launch_max_pool(const Windows& windows, DType dtype, const void* x, void* y, uint8_t* places,
                            cudaStream_t stream);
cudaError_t launch_max_pool_backward(const Windows& windows, DType dtype, const void* dy,
                                     const uint8_t* places, void* dx, cudaStream_t stream);
cudaError_t launch_average_pool(const Windows& windows, DType dtype, const void* x, void* y,
                                cudaStream_t stream);
cudaError_t launch_average_pool_backward(const Windows& windows, DType dtype, const void* dy, void* dx,
                                         cudaStream_t stream);

}  // namespace trainer::cuda
