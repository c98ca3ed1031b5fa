// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"

namespace trainer::cuda {

/// Pictures of (channels, area) bytes, and how far apart channels and pixels lie in what is made of them.
struct PixelPlaces {
  int64_t pictures, channels, area, channel_step, pixel_step;
};

/// y = scale * x + offset, x of u8, scale and offset for each channel.
cudaError_t launch_scale_pixels(DType to, const PixelPlaces& places, const void* x, const float* scale,
                                const float* offset, void* y, cudaStream_t stream);

}  // namespace trainer::cuda
