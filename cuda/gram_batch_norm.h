// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"
#include "cuda/block_sums.h"

namespace trainer::cuda {

/// See core/graph/ops/gram_batch_norm.h. Weights are (channels, features), and sums run over `rows`; `dtype`
/// is that of folded and bias, of d and e.
struct GramSizes {
  int64_t channels, features, rows;
  DType dtype;
};

/// Results but `folded` may be nullptr.
struct GramMoments {
  const float *w, *t, *s, *gamma, *beta;
  void *folded, *bias;
  float *mean, *variance;
  LostVariances* lost;  ///< grows by the number of channels with such a variance
};
cudaError_t launch_gram_batch_norm(const GramSizes& sizes, double eps, const GramMoments& tensors,
                                   cudaStream_t stream);

/// d and e are multiplied by `scale`. Results but `dw` may be nullptr.
struct GramGradients {
  double scale;
  const float *w, *t, *s, *p, *sum, *gamma, *mean, *variance;
  float *dw, *dgamma;
  void *d, *e;
};
cudaError_t launch_gram_batch_norm_backward(const GramSizes& sizes, double eps, const GramGradients& tensors,
                                            cudaStream_t stream);

}  // namespace trainer::cuda
