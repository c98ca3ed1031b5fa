// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/ops/cross_entropy_sums.h"
#include "cuda/loss.h"

namespace trainer::cuda {

/// Rows, some of which do not count; `rows.other` is null.
struct TargetRows {
  LogitRows rows;
  const float* class_weights;  ///< (classes) or null
  int32_t ignored;
  double smoothing;
  double gamma;  ///< of Focus
};

/// Memory for the sums of parts.
int64_t target_workspace_bytes(int64_t rows, int64_t classes);

/// The first three outputs of CrossEntropySums, any of which may be null.
struct TargetSums {
  float* of[3];
};
cudaError_t launch_cross_entropy_sums(const TargetRows& rows, DType dtype, const void* logits,
                                      const SoftmaxOfRows& softmax, void* workspace, const TargetSums& sums,
                                      cudaStream_t stream);
/// `own`: the classes of these logits among those of all ranks.
cudaError_t launch_cross_entropy_sums_backward(const TargetRows& rows, const OwnClasses& own, DType dtype,
                                               const void* logits, const KeptSoftmax& softmax,
                                               const float* dloss, void* dlogits, cudaStream_t stream);
/// The sums of all ranks (ranks, rows, LogitSum::kFields); `rows.rows.classes` are those of all ranks. No
/// focal loss.
int64_t targets_of_ranks_workspace_bytes(int64_t rows);
cudaError_t launch_cross_entropy_sums_of_ranks(const TargetRows& rows, int64_t ranks, const float* sums,
                                               const SoftmaxOfRows& softmax, void* workspace,
                                               const TargetSums& y, cudaStream_t stream);
/// Outputs of MeanOverTargets, any of which may be null.
cudaError_t launch_mean_over_targets(const float* sum, const float* weight, const float* scale,
                                     const TargetSums& y, cudaStream_t stream);

}  // namespace trainer::cuda
