// SPDX-License-Identifier: Apache-2.0
#include "cuda/elementwise.h"

#include <algorithm>

#include "cuda/launch.h"

namespace trainer::cuda {
namespace {

/// dx = dy * f'(saved), as a function of two elements.
template <class F>
struct Gradient {
  F f;
  TRAINER_HD float operator()(float dy, float saved) const { return f.gradient(saved, dy); }
};

struct Add {
  TRAINER_HD float operator()(float a, float b) const { return a + b; }
};

struct Mul {
  TRAINER_HD float operator()(float a, float b) const { return a * b; }
};

/// y[i] = f(x[i]...), i < count. Not __restrict__: y may be one of the x.
template <class F, class... X>
__global__ void each_element(F f, int64_t count, float* y, X... x) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    y[i] = f(x[i]...);
  }
}

template <class F, class... X>
cudaError_t launch_each(F f, int64_t count, cudaStream_t stream, float* y, X... x) {
  // 256 threads are eight warps, enough to hide latency at any register count; the loop in the kernel takes
  // over beyond 65535 blocks.
  constexpr int64_t kThreads = 256, kMostBlocks = 65535;
  if (count == 0) return cudaSuccess;
  const int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMostBlocks);
  return launch(each_element<F, X...>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, stream, f,
                count, y, x...);
}

}  // namespace

cudaError_t launch_unary(const elementwise::Function& function, const float* x, float* y, int64_t count,
                         cudaStream_t stream) {
  return std::visit([=](auto f) { return launch_each(f, count, stream, y, x); }, function);
}

cudaError_t launch_unary_backward(const elementwise::Function& function, const float* dy, const float* saved,
                                  float* dx, int64_t count, cudaStream_t stream) {
  auto run = [=](auto f) { return launch_each(Gradient<decltype(f)>{f}, count, stream, dx, dy, saved); };
  return std::visit(run, function);
}

cudaError_t launch_add(const float* a, const float* b, float* y, int64_t count, cudaStream_t stream) {
  return launch_each(Add{}, count, stream, y, a, b);
}

cudaError_t launch_mul(const float* a, const float* b, float* y, int64_t count, cudaStream_t stream) {
  return launch_each(Mul{}, count, stream, y, a, b);
}

}  // namespace trainer::cuda
