// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/sample_steps.h"

namespace trainer::cuda {

/// Images of (channels, area) bytes. The results have `made` channels, zeros after those of the image; and
/// the distances of their channels and pixels.
struct PixelPlaces {
  int64_t images, channels, area, made, channel_step, pixel_step;
};

/// y = scale * x + offset, x of u8, scale and offset for each channel.
cudaError_t launch_scale_pixels(DType to, const PixelPlaces& places, const void* x, const float* scale,
                                const float* offset, void* y, cudaStream_t stream);

/// Rows from all samples: (channels, height, width) becomes (channels, to_height, to_width).
struct SampleSizes {
  int64_t rows, channels, height, width, to_height, to_width;
};

/// pixels and labels of samples by number; `labels` may be null. A number below 0 makes zeros.
struct SampleRows {
  const uint8_t* samples;
  const int32_t* answers;
  const int32_t* numbers;
  const int32_t* epochs;
  uint8_t* pixels;
  int32_t* labels;
};
cudaError_t launch_read_samples(const SampleSteps& steps, const SampleSizes& sizes, const SampleRows& rows,
                                cudaStream_t stream);

}  // namespace trainer::cuda
