// SPDX-License-Identifier: Apache-2.0
#include "cuda/dropout.h"

#include "core/graph/ops/stochastic_depth.h"
#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/storage.h"

namespace trainer::cuda {
namespace {

struct ElementFactors {
  DropoutSettings settings;
  __device__ Octet operator()(int64_t first, int32_t sample, int32_t step) const {
    Octet factors;
    for (int half = 0; half < 2; ++half) {
      const Words words = settings.block(first / 4 + half, sample, step);
#pragma unroll
      for (int i = 0; i < 4; ++i) factors.v[4 * half + i] = settings.factor(words.v[i]);
    }
    return factors;
  }
};

struct SampleFactor {
  DropoutSettings settings;
  __device__ Octet operator()(int64_t, int32_t sample, int32_t step) const {
    const float factor = StochasticDepth::factor(settings, sample, step);
    return {factor, factor, factor, factor, factor, factor, factor, factor};
  }
};

struct Times {
  __device__ float operator()(float x, float factor) const { return x * factor; }
};

/// y = x * factors(element, sample, step)
template <class Factors, class T>
__global__ void __launch_bounds__(kThreads)
    scale_samples(Factors factors, Samples samples, const T* x, T* y) {
  wait_for_previous_kernels();
  const int64_t octets = (samples.width + Octet::kSize - 1) / Octet::kSize;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < samples.count * octets;
       i += stride) {
    const int64_t sample = i / octets, first = i % octets * Octet::kSize, left = samples.width - first;
    const Octet factor = factors(first, samples.index[sample], *samples.step);
    const int64_t place = sample * samples.width + first;
    store(each(Times{}, load(x + place, left), factor), left, y + place);
  }
}

template <class Factors>
cudaError_t launch_scaling(const Factors& factors, const Samples& samples, const void* x, void* y,
                           cudaStream_t stream) {
  const int64_t octets = (samples.width + Octet::kSize - 1) / Octet::kSize;
  return with_storage(samples.dtype, [=](auto type) {
    using T = decltype(type);
    return launch(scale_samples<Factors, T>, blocks_for(samples.count * octets * Octet::kSize),
                  dim3(kThreads), stream, factors, samples, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

}  // namespace

cudaError_t launch_dropout(const DropoutSettings& settings, const Samples& samples, const void* x, void* y,
                           cudaStream_t stream) {
  return launch_scaling(ElementFactors{settings}, samples, x, y, stream);
}

cudaError_t launch_stochastic_depth(const DropoutSettings& settings, const Samples& samples, const void* x,
                                    void* y, cudaStream_t stream) {
  return launch_scaling(SampleFactor{settings}, samples, x, y, stream);
}

}  // namespace trainer::cuda
