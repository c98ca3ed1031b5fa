// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/host_device.h"
#include "cuda/block_sums.h"

namespace trainer::cuda {

// Images are matrices of `rows` pixels x `channels` in a floating type; all values per channel are f32. Masks
// have a bit for each element; each row begins at a byte.

struct ImageRows {
  int64_t rows, channels;
  DType dtype;
  int64_t bytes() const { return rows * channels * bytes_per_element(dtype); }
  int64_t mask_bytes() const { return rows * ((channels + 7) / 8); }
};

/// For the sums of parts and the coefficients of a channel's elements. With given moments none is needed.
int64_t batch_norm_workspace_bytes(const ImageRows& images);

/// Given moments of x: means and biased variances of `ranks` ranks with equal numbers of values, (ranks, 2,
/// channels), or each channel's sums of x and of x^2; without either (nullptr) they are computed.
struct GivenMoments {
  const float* table;
  int64_t ranks;
  const float *sums, *squares;
  TRAINER_HD bool exist() const { return table != nullptr || sums != nullptr; }
};

/// residual and mask, mean and variance may be nullptr. With relu y is clamped to 0 and ceiling.
struct BatchNormTensors {
  const void* x;
  const float *gamma, *beta;
  const void* residual;
  void* y;
  float *mean, *variance;
  uint8_t* mask;
  bool relu;
  float ceiling;
  GivenMoments given;
};
cudaError_t launch_batch_norm(const ImageRows& images, double eps, const BatchNormTensors& tensors,
                              const BlockSums& memory, cudaStream_t stream);

/// Each channel's sums of x and of x^2; either may be nullptr.
cudaError_t launch_channel_sums(const ImageRows& images, const void* x, float* sums, float* squares,
                                const BlockSums& memory, cudaStream_t stream);

/// other_dy, mask, masked (the residual's gradient), dgamma and dbeta may be nullptr. `masked` may be dy, and
/// dx may be other_dy, or dy without `masked`.
struct BatchNormGradients {
  const void *dy, *other_dy, *x;
  const float *gamma, *mean, *variance;
  const uint8_t* mask;
  void *dx, *masked;
  float *dgamma, *dbeta;
};
cudaError_t launch_batch_norm_backward(const ImageRows& images, double eps, const BatchNormGradients& tensors,
                                       const BlockSums& memory, cudaStream_t stream);

struct GivenStatistics {
  const float *gamma, *beta, *mean, *variance;
};
/// y may be x.
cudaError_t launch_batch_norm_inference(const ImageRows& images, double eps, const GivenStatistics& given,
                                        const void* x, void* y, cudaStream_t stream);
/// Weights: `channels` times `each` elements; bias may be nullptr.
cudaError_t launch_fold_batch_norm(DType dtype, int64_t channels, int64_t each, double eps,
                                   const GivenStatistics& given, const void* w, const float* bias,
                                   void* new_w, float* new_bias, cudaStream_t stream);

}  // namespace trainer::cuda
