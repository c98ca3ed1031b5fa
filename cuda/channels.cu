// SPDX-License-Identifier: Apache-2.0
#include "cuda/channels.h"

#include "cuda/rows.h"

namespace trainer::cuda {
namespace {

struct Times {
  __device__ float operator()(float x, float s) const { return x * s; }
};
struct Plus {
  __device__ float operator()(float x, float b) const { return x + b; }
};

/// y = f(x, number of the channel); the numbers of a sample are `step` after those of the one before.
template <class F, class T, class V>
__global__ void __launch_bounds__(kThreads) with_numbers(F f, int64_t count, int64_t pixels, int64_t channels,
                                                         int64_t step, const T* x, const V* numbers, T* y) {
  wait_for_previous_kernels();
  const int64_t octets = (channels + Octet::kSize - 1) / Octet::kSize;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    const int64_t row = i / octets, channel = i % octets * Octet::kSize, left = channels - channel;
    const Octet own = load(numbers + row / pixels * step + channel, left);
    const int64_t place = row * channels + channel;
    store(each(f, load(x + place, left), own), left, y + place);
  }
}

template <class F, class V>
cudaError_t launch_with_numbers(const Images& p, int64_t step, const void* x, const V* numbers, void* y,
                                cudaStream_t stream) {
  const int64_t octets = (p.channels + Octet::kSize - 1) / Octet::kSize;
  const int64_t count = p.samples * p.pixels * octets;
  return with_storage(p.dtype, [=](auto type) {
    using T = decltype(type);
    return launch(with_numbers<F, T, V>, blocks_for(count * Octet::kSize), dim3(kThreads), stream, F{}, count,
                  p.pixels, p.channels, step, static_cast<const T*>(x), numbers, static_cast<T*>(y));
  });
}

/// A block for some channels of an image.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_images(RowSweep of_image, float factor, const T* x, const T* other, T* sums) {
  wait_for_previous_kernels();
  const int64_t columns = of_image.columns(), image = blockIdx.x / columns;
  Column at = column_of(of_image, blockIdx.x % columns);
  const int64_t begin = image * of_image.rows;
  Sums own{};
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const int64_t place = (begin + row) * of_image.channels + at.channel;
    Octet value = load(x + place, at.left);
    if (other != nullptr) value = each(Times{}, value, load(other + place, at.left));
    own.a = each(Plus{}, own.a, value);
  }
  own = reduce_rows(own, AddSums{});
  if (threadIdx.y != 0 || at.left <= 0) return;
  store(each([factor](float sum) { return sum * factor; }, own.a), at.left,
        sums + image * of_image.channels + at.channel);
}

}  // namespace

cudaError_t launch_scale_channels(const Images& p, const void* x, const void* s, void* y,
                                  cudaStream_t stream) {
  return with_storage(p.dtype, [=](auto type) {
    return launch_with_numbers<Times>(p, p.channels, x, static_cast<const decltype(type)*>(s), y, stream);
  });
}

cudaError_t launch_add_channels(const Images& p, DType b_dtype, const void* x, const void* b, void* y,
                                cudaStream_t stream) {
  return with_storage(b_dtype, [=](auto type) {
    return launch_with_numbers<Plus>(p, 0, x, static_cast<const decltype(type)*>(b), y, stream);
  });
}

cudaError_t launch_image_sums(const Images& p, float factor, const void* x, const void* other, void* sums,
                              cudaStream_t stream) {
  const RowSweep sweep = RowSweep(p.pixels, p.channels).in_one_part();
  // All blocks are in x: y and z end at 65,535.
  const dim3 grid(static_cast<unsigned>(sweep.columns() * p.samples));
  return with_storage(p.dtype, [=](auto type) {
    using T = decltype(type);
    return launch(sum_images<T>, grid, sweep.block(), stream, sweep, factor, static_cast<const T*>(x),
                  static_cast<const T*>(other), static_cast<T*>(sums));
  });
}

}  // namespace trainer::cuda
