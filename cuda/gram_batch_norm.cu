// SPDX-License-Identifier: Apache-2.0
#include "cuda/gram_batch_norm.h"

#include "core/base/math.h"
#include "core/base/moments.h"
#include "cuda/team.h"

namespace trainer::cuda {
namespace {

// A block has a channel: a row of each matrix.

/// f(k, place of the channel's element k), shared out among the threads.
template <class F>
__device__ inline void for_features(int64_t features, const F& f) {
  const int64_t first = int64_t{blockIdx.x} * features;
  for (int64_t k = threadIdx.x; k < features; k += kThreads) f(k, first + k);
}

template <class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    fold_moments(int64_t features, double rows, double eps, GramMoments to) {
  wait_for_previous_kernels();
  const int64_t c = blockIdx.x;
  double sum = 0, squares = 0;
  for_features(features, [&](int64_t k, int64_t i) {
    sum += static_cast<double>(to.w[i]) * to.s[k];
    squares += static_cast<double>(to.w[i]) * to.t[i];
  });
  const double mean = BlockTeam::sum(sum) / rows, mean_square = BlockTeam::sum(squares) / rows,
               variance = variance_of(mean_square, mean);
  // A NaN of beta would be in the bias alone if a relu may hide it from all gradients.
  const double scale = to.gamma[c] / math::sqrt(variance + eps) + 0.0 * to.beta[c];
  auto* folded = static_cast<T*>(to.folded);
  for_features(features, [&](int64_t, int64_t i) { put(static_cast<float>(to.w[i] * scale), folded[i]); });
  if (threadIdx.x != 0) return;
  if (to.bias != nullptr) put(static_cast<float>(to.beta[c] - mean * scale), static_cast<T*>(to.bias)[c]);
  if (to.mean != nullptr) to.mean[c] = static_cast<float>(mean);
  if (to.variance != nullptr) to.variance[c] = static_cast<float>(variance);
  if (is_variance_lost(mean_square, mean)) atomicAdd(to.lost, LostVariances{1});
}

template <class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    differentiate_moments(int64_t features, double rows, double eps, GramGradients to) {
  wait_for_previous_kernels();
  const int64_t c = blockIdx.x;
  double product = 0;
  for_features(features, [&](int64_t, int64_t i) { product += static_cast<double>(to.p[i]) * to.w[i]; });
  product = BlockTeam::sum(product);
  const double sum = to.sum[c], mean = to.mean[c], inverse = 1 / math::sqrt(to.variance[c] + eps);
  const double dgamma = inverse * (product - mean * sum);
  const double k = to.gamma[c] * inverse, a = sum / rows, b = inverse * dgamma / rows;
  auto* d = static_cast<T*>(to.d);
  for_features(features, [&](int64_t j, int64_t i) {
    const double s = to.s[j];
    to.dw[i] = static_cast<float>(k * (to.p[i] - a * s - b * (to.t[i] - mean * s)));
    if (d != nullptr) put(static_cast<float>(-to.scale * k * b * to.w[i]), d[i]);
  });
  if (threadIdx.x != 0) return;
  if (to.dgamma != nullptr) to.dgamma[c] = static_cast<float>(dgamma);
  if (to.e != nullptr) put(static_cast<float>(-to.scale * k * (a - b * mean)), static_cast<T*>(to.e)[c]);
}

}  // namespace

cudaError_t launch_gram_batch_norm(const GramSizes& sizes, double eps, const GramMoments& tensors,
                                   cudaStream_t stream) {
  return with_storage(sizes.dtype, [&](auto type) {
    return launch(fold_moments<decltype(type)>, dim3(static_cast<unsigned>(sizes.channels)), dim3(kThreads),
                  stream, sizes.features, static_cast<double>(sizes.rows), eps, tensors);
  });
}

cudaError_t launch_gram_batch_norm_backward(const GramSizes& sizes, double eps, const GramGradients& tensors,
                                            cudaStream_t stream) {
  return with_storage(sizes.dtype, [&](auto type) {
    return launch(differentiate_moments<decltype(type)>, dim3(static_cast<unsigned>(sizes.channels)),
                  dim3(kThreads), stream, sizes.features, static_cast<double>(sizes.rows), eps, tensors);
  });
}

}  // namespace trainer::cuda
