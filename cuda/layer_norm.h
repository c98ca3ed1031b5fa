// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"
#include "cuda/block_sums.h"

namespace trainer::cuda {

/// Rows of `width` elements, one after the other; `rms`: the mean counts as zero.
struct NormRows {
  int64_t rows, width;
  DType dtype;
  bool rms;
};

/// gamma, beta and residual may be nullptr; so may all results but y.
struct LayerNormTensors {
  const void *x, *residual;
  const float *gamma, *beta;
  void *y, *sum;
  float *factor, *mean;
};
cudaError_t launch_layer_norm(const NormRows& rows, double eps, const LayerNormTensors& t,
                              cudaStream_t stream);

/// gamma, mean (of rms) and other may be nullptr; so may dgamma and dbeta. dx may share memory with dy, s or
/// other.
struct LayerNormGradients {
  const void *dy, *s, *other;
  const float *gamma, *factor, *mean;
  void* dx;
  float *dgamma, *dbeta;
};
/// For the sums of parts of the rows.
int64_t layer_norm_backward_workspace(const NormRows& rows);
cudaError_t launch_layer_norm_backward(const NormRows& rows, const LayerNormGradients& t,
                                       const BlockSums& memory, cudaStream_t stream);

}  // namespace trainer::cuda
