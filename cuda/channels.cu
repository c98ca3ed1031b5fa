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

/// y = f(x, number of the channel); the numbers of a sample lie `step` behind those of the one before.
template <class F, class T, class V>
__global__ void __launch_bounds__(kThreads) with_numbers(F f, int64_t count, int64_t pixels, int64_t channels,
                                                         int64_t step, const T* x, const V* numbers, T* y) {
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
cudaError_t launch_with_numbers(const Pictures& p, int64_t step, const void* x, const V* numbers, void* y,
                                cudaStream_t stream) {
  const int64_t octets = (p.channels + Octet::kSize - 1) / Octet::kSize;
  const int64_t count = p.samples * p.pixels * octets;
  return with_storage(p.dtype, [=](auto type) {
    using T = decltype(type);
    return launch(with_numbers<F, T, V>, blocks_for(count * Octet::kSize), dim3(kThreads), stream, F{}, count,
                  p.pixels, p.channels, step, static_cast<const T*>(x), numbers, static_cast<T*>(y));
  });
}

/// A block for some channels of a picture.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_pictures(RowWalk of_picture, float factor, const T* x, const T* other, T* sums) {
  Column at = column_of(of_picture);
  const int64_t begin = blockIdx.z * of_picture.rows;
  Sums own{};
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const int64_t place = (begin + row) * of_picture.channels + at.channel;
    Octet value = load(x + place, at.left);
    if (other != nullptr) value = each(Times{}, value, load(other + place, at.left));
    own.a = each(Plus{}, own.a, value);
  }
  own = reduce_rows(own, AddSums{});
  if (threadIdx.y != 0 || at.left <= 0) return;
  store(each([factor](float sum) { return sum * factor; }, own.a), at.left,
        sums + blockIdx.z * of_picture.channels + at.channel);
}

template <class T>
__global__ void __launch_bounds__(kThreads) sum_part(RowWalk walk, const T* x, float* part_sums) {
  const Column at = column_of(walk);
  Sums own{};
  for (int64_t row = at.row; row < at.end; row += at.step) {
    own.a = each(Plus{}, own.a, load(x + row * walk.channels + at.channel, at.left));
  }
  own = reduce_rows(own, AddSums{});
  if (threadIdx.y != 0 || at.left <= 0) return;
  store(own.a, at.left, part_sums + blockIdx.y * walk.channels + at.channel);
}

template <class T>
__global__ void __launch_bounds__(kFinishWide* kFinishHigh)
    finish_sums(RowWalk walk, const float* part_sums, T* sums) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kFinishWide + threadIdx.x;
  const double sum = sum_parts(walk.parts, [&](int64_t part) {
    return c < walk.channels ? static_cast<double>(part_sums[part * walk.channels + c]) : 0.0;
  });
  if (threadIdx.y == 0 && c < walk.channels) put(static_cast<float>(sum), sums[c]);
}

}  // namespace

cudaError_t launch_scale_channels(const Pictures& p, const void* x, const void* s, void* y,
                                  cudaStream_t stream) {
  return with_storage(p.dtype, [=](auto type) {
    return launch_with_numbers<Times>(p, p.channels, x, static_cast<const decltype(type)*>(s), y, stream);
  });
}

cudaError_t launch_add_channels(const Pictures& p, DType b_dtype, const void* x, const void* b, void* y,
                                cudaStream_t stream) {
  return with_storage(b_dtype, [=](auto type) {
    return launch_with_numbers<Plus>(p, 0, x, static_cast<const decltype(type)*>(b), y, stream);
  });
}

cudaError_t launch_picture_sums(const Pictures& p, float factor, const void* x, const void* other, void* sums,
                                cudaStream_t stream) {
  const RowWalk walk = RowWalk(p.pixels, p.channels).in_one_part();
  const dim3 grid(static_cast<unsigned>(walk.columns()), 1, static_cast<unsigned>(p.samples));
  return with_storage(p.dtype, [=](auto type) {
    using T = decltype(type);
    return launch(sum_pictures<T>, grid, walk.block(), stream, walk, factor, static_cast<const T*>(x),
                  static_cast<const T*>(other), static_cast<T*>(sums));
  });
}

cudaError_t launch_channel_sums(const Pictures& p, DType sums_dtype, const void* x, void* workspace,
                                void* sums, cudaStream_t stream) {
  const RowWalk walk(p.samples * p.pixels, p.channels);
  auto* part_sums = static_cast<float*>(workspace);
  const cudaError_t status = with_storage(p.dtype, [=](auto type) {
    using T = decltype(type);
    return launch(sum_part<T>, walk.grid(), walk.block(), stream, walk, static_cast<const T*>(x), part_sums);
  });
  if (status != cudaSuccess) return status;
  return with_storage(sums_dtype, [=](auto type) {
    using T = decltype(type);
    return launch(finish_sums<T>, finish_grid(walk.channels), finish_block(), stream, walk, part_sums,
                  static_cast<T*>(sums));
  });
}

int64_t channel_sums_workspace_bytes(const Pictures& p) {
  return RowWalk(p.samples * p.pixels, p.channels).parts * p.channels * static_cast<int64_t>(sizeof(float));
}

}  // namespace trainer::cuda
