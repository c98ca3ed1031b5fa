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

/// y = x * factors for rows whose elements may begin within a block of four.
template <class T>
__global__ void __launch_bounds__(kThreads)
    drop_in_rows(DropoutSettings settings, SampleRows rows, const T* x, T* y) {
  wait_for_previous_kernels();
  const int64_t octets = (rows.width + Octet::kSize - 1) / Octet::kSize;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int32_t step = *rows.step;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < rows.rows * octets;
       i += stride) {
    const int64_t row = i / octets, first = i % octets * Octet::kSize, left = rows.width - first;
    const int64_t whole = rows.first_row + row, sample = whole / rows.of_sample;
    const int64_t element = whole % rows.of_sample * rows.whole_width + rows.first_column + first;
    Octet factor{};
    if (sample < rows.samples) {
      const int32_t index = rows.index[sample];
      Words words = settings.block(element / 4, index, step);
#pragma unroll
      for (int k = 0; k < Octet::kSize; ++k) {
        const auto word = (element + k) % 4;
        if (k > 0 && word == 0) words = settings.block((element + k) / 4, index, step);
        const uint32_t low = word % 2 == 0 ? words.v[0] : words.v[1];
        const uint32_t high = word % 2 == 0 ? words.v[2] : words.v[3];
        factor.v[k] = settings.factor(word < 2 ? low : high);
      }
    }
    const int64_t place = row * rows.width + first;
    const Octet given = sample < rows.samples ? load(x + place, left) : Octet{};
    store(each(Times{}, given, factor), left, y + place);
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

cudaError_t launch_dropout(const DropoutSettings& settings, const SampleRows& rows, const void* x, void* y,
                           cudaStream_t stream) {
  const int64_t octets = (rows.width + Octet::kSize - 1) / Octet::kSize;
  return with_storage(rows.dtype, [=](auto type) {
    using T = decltype(type);
    return launch(drop_in_rows<T>, blocks_for(rows.rows * octets * Octet::kSize), dim3(kThreads), stream,
                  settings, rows, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

cudaError_t launch_stochastic_depth(const DropoutSettings& settings, const Samples& samples, const void* x,
                                    void* y, cudaStream_t stream) {
  return launch_scaling(SampleFactor{settings}, samples, x, y, stream);
}

}  // namespace trainer::cuda
