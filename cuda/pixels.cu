// SPDX-License-Identifier: Apache-2.0
#include "cuda/pixels.h"

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/storage.h"

namespace trainer::cuda {
namespace {

/// A thread has a pixel with all its few channels: neighbours read neighbouring bytes and write neighbouring
/// numbers in either layout.
template <class T>
__global__ void __launch_bounds__(kThreads)
    scale_pixels(PixelPlaces p, const uint8_t* x, const float* scale, const float* offset, T* y) {
  wait_for_previous_kernels();
  const int64_t count = p.images * p.area, stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    const int64_t pixel = i % p.area, from = i / p.area * p.area * p.channels,
                  to = i / p.area * p.area * p.made;
    for (int64_t c = 0; c < p.made; ++c) {
      const float value =
          c < p.channels ? scale[c] * to_float(x[from + c * p.area + pixel]) + offset[c] : 0.0f;
      put(value, y[to + c * p.channel_step + pixel * p.pixel_step]);
    }
  }
}

/// A block has a row of the batch. Each thread repeats the draws, which is faster than waiting for another.
__global__ void __launch_bounds__(kThreads) read_samples(SampleSteps steps, SampleSizes e, SampleRows r) {
  wait_for_previous_kernels();
  const int64_t row = blockIdx.x, area = e.to_height * e.to_width;
  const int32_t number = r.numbers[row];
  if (r.labels != nullptr && threadIdx.x == 0) r.labels[row] = number < 0 ? 0 : r.answers[number];
  const uint8_t* sample = r.samples + number * e.channels * e.height * e.width;
  uint8_t* made = r.pixels + row * e.channels * area;
  const DrawnSteps drawn = draw_steps(steps, r.epochs[row], number, e.height, e.width);
  for (int64_t i = threadIdx.x; i < area; i += kThreads) {
    int64_t y = i / e.to_width, x = i % e.to_width;
    const bool inside = number >= 0 && source_place(steps, drawn, e.height, e.width, y, x);
    for (int64_t c = 0; c < e.channels; ++c) {
      made[c * area + i] = inside ? sample[(c * e.height + y) * e.width + x] : uint8_t{0};
    }
  }
}

}  // namespace

cudaError_t launch_read_samples(const SampleSteps& steps, const SampleSizes& sizes, const SampleRows& rows,
                                cudaStream_t stream) {
  return launch(read_samples, dim3(static_cast<unsigned>(sizes.rows)), dim3(kThreads), stream, steps, sizes,
                rows);
}

cudaError_t launch_scale_pixels(DType to, const PixelPlaces& places, const void* x, const float* scale,
                                const float* offset, void* y, cudaStream_t stream) {
  return with_storage(to, [=](auto element) {
    using T = decltype(element);
    return launch(scale_pixels<T>, blocks_for(Octet::kSize * places.images * places.area), dim3(kThreads),
                  stream, places, static_cast<const uint8_t*>(x), scale, offset, static_cast<T*>(y));
  });
}

}  // namespace trainer::cuda
