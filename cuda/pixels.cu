// SPDX-License-Identifier: Apache-2.0
#include "cuda/pixels.h"

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/storage.h"

namespace trainer::cuda {
namespace {

/// A thread has a pixel with all its channels, of which there are few: neighbours read neighbouring bytes and
/// write neighbouring numbers in either layout.
template <class T>
__global__ void scale_pixels(PixelPlaces p, const uint8_t* x, const float* scale, const float* offset, T* y) {
  const int64_t count = p.pictures * p.area, stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    const int64_t pixel = i % p.area, picture = i / p.area * p.area * p.channels;
    for (int64_t c = 0; c < p.channels; ++c) {
      const float value = scale[c] * to_float(x[picture + c * p.area + pixel]) + offset[c];
      put(value, y[picture + c * p.channel_step + pixel * p.pixel_step]);
    }
  }
}

}  // namespace

cudaError_t launch_scale_pixels(DType to, const PixelPlaces& places, const void* x, const float* scale,
                                const float* offset, void* y, cudaStream_t stream) {
  return with_storage(to, [=](auto element) {
    using T = decltype(element);
    return launch(scale_pixels<T>, blocks_for(Octet::kSize * places.pictures * places.area), dim3(kThreads),
                  stream, places, static_cast<const uint8_t*>(x), scale, offset, static_cast<T*>(y));
  });
}

}  // namespace trainer::cuda
