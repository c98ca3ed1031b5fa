// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/ops/counted_cross_entropy.h"
#include "cuda/loss.h"

namespace trainer::cuda {

/// Rows of which some count for nothing; `rows.other` is null.
struct CountedRows {
  LogitRows rows;
  const float* class_weights;  ///< (classes) or null
  int32_t ignored;
  double smoothing;
  double gamma;  ///< of Focus
};

/// Memory for the sums of parts.
int64_t counted_workspace_bytes(int64_t rows, int64_t classes);

/// Outputs of CountedCrossEntropy, of which any may be null.
struct CountedOutputs {
  float* of[3];
};
cudaError_t launch_counted(const CountedRows& rows, DType dtype, const void* logits, void* workspace,
                           const CountedOutputs& sums, cudaStream_t stream);
cudaError_t launch_counted_backward(const CountedRows& rows, DType dtype, const void* logits,
                                    const float* dloss, void* dlogits, cudaStream_t stream);
/// Outputs of MeanOfCounted, of which any may be null.
cudaError_t launch_mean_of_counted(const float* sum, const float* weight, const float* scale,
                                   const CountedOutputs& y, cudaStream_t stream);

}  // namespace trainer::cuda
