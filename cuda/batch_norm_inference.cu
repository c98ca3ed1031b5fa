// SPDX-License-Identifier: Apache-2.0
#include "core/base/math.h"
#include "cuda/batch_norm.h"
#include "cuda/rows.h"

namespace trainer::cuda {
namespace {

__device__ inline double scale_of(const GivenStatistics& given, double eps, int64_t channel) {
  return given.gamma[channel] / math::sqrt(given.variance[channel] + eps);
}

/// y = x * scale + shift
template <class T>
__global__ void __launch_bounds__(kThreads)
    apply_statistics(RowSweep sweep, GivenStatistics given, double eps, const T* x, T* y) {
  wait_for_previous_kernels();
  const Column at = column_of(sweep, blockIdx.x);
  if (at.left <= 0) return;
  Octet scale{}, shift{};
#pragma unroll
  for (int i = 0; i < Octet::kSize; ++i) {
    const int64_t c = at.channel + i;
    if (i >= at.left) continue;
    const double factor = scale_of(given, eps, c);
    scale.v[i] = static_cast<float>(factor);
    shift.v[i] = static_cast<float>(given.beta[c] - given.mean[c] * factor);
  }
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const int64_t place = row * sweep.channels + at.channel;
    store(each([](float v, float s, float b) { return v * s + b; }, load(x + place, at.left), scale, shift),
          at.left, y + place);
  }
}

/// One block for each channel: w * s and (bias - mean) * s + beta. A result that is not needed is nullptr.
template <class T>
__global__ void __launch_bounds__(kThreads) fold(GivenStatistics given, double eps, int64_t count, const T* w,
                                                 const float* bias, T* new_w, float* new_bias) {
  wait_for_previous_kernels();
  const int64_t c = blockIdx.x;
  const double factor = scale_of(given, eps, c);
  const float scale = static_cast<float>(factor);
  if (new_w != nullptr) {
    for (int64_t i = threadIdx.x; i < count; i += kThreads)
      put(to_float(w[c * count + i]) * scale, new_w[c * count + i]);
  }
  if (threadIdx.x != 0 || new_bias == nullptr) return;
  const double own = bias == nullptr ? 0 : bias[c];
  new_bias[c] = static_cast<float>((own - given.mean[c]) * factor + given.beta[c]);
}

}  // namespace

cudaError_t launch_batch_norm_inference(const ImageRows& images, double eps, const GivenStatistics& given,
                                        const void* x, void* y, cudaStream_t stream) {
  const RowSweep sweep(images.rows, images.channels);
  return with_storage(images.dtype, [=](auto type) {
    using T = decltype(type);
    return launch(apply_statistics<T>, sweep.grid(), sweep.block(), stream, sweep, given, eps,
                  static_cast<const T*>(x), static_cast<T*>(y));
  });
}

cudaError_t launch_fold_batch_norm(DType dtype, int64_t channels, int64_t each, double eps,
                                   const GivenStatistics& given, const void* w, const float* bias,
                                   void* new_w, float* new_bias, cudaStream_t stream) {
  return with_storage(dtype, [=](auto type) {
    using T = decltype(type);
    return launch(fold<T>, dim3(static_cast<unsigned>(channels)), dim3(kThreads), stream, given, eps, each,
                  static_cast<const T*>(w), bias, static_cast<T*>(new_w), new_bias);
  });
}

}  // namespace trainer::cuda
