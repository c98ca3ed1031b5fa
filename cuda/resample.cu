// SPDX-License-Identifier: Apache-2.0
#include "cuda/resample.h"

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/storage.h"

namespace trainer::cuda {
namespace {

/// A thread for eight channels of each pixel of y.
template <class T>
__global__ void __launch_bounds__(kThreads) resample(Resampled r, int64_t count, const T* x, T* y) {
  wait_for_previous_kernels();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= count) return;
  const int64_t octets = (r.channels + Octet::kSize - 1) / Octet::kSize, pixel = thread / octets;
  const int64_t channel = thread % octets * Octet::kSize, left = r.channels - channel;
  const auto column = static_cast<int32_t>(pixel % r.columns.outputs);
  const auto row = static_cast<int32_t>(pixel / r.columns.outputs % r.rows.outputs);
  const int64_t image = pixel / r.columns.outputs / r.rows.outputs * r.height;
  Octet sum{};
  for (int32_t i = r.rows.begin[row]; i < r.rows.begin[row + 1]; ++i) {
    const int64_t line = (image + r.rows.input[i]) * r.width;
    for (int32_t j = r.columns.begin[column]; j < r.columns.begin[column + 1]; ++j) {
      const float weight = r.rows.weight[i] * r.columns.weight[j];
      const Octet value = load(x + (line + r.columns.input[j]) * r.channels + channel, left);
      sum = each([weight](float s, float v) { return s + weight * v; }, sum, value);
    }
  }
  store(sum, left, y + pixel * r.channels + channel);
}

}  // namespace

cudaError_t launch_resample(const Resampled& r, DType dtype, const void* x, void* y, cudaStream_t stream) {
  const int64_t octets = (r.channels + Octet::kSize - 1) / Octet::kSize;
  const int64_t count = r.samples * r.rows.outputs * r.columns.outputs * octets;
  return with_storage(dtype, [=](auto type) {
    using T = decltype(type);
    return launch(resample<T>, dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)), dim3(kThreads),
                  stream, r, count, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

}  // namespace trainer::cuda
