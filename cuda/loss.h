// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"
#include "core/graph/ops/logit_sums.h"
#include "cuda/block_sums.h"

namespace trainer::cuda {

/// Rows of logits as they are stored: of each sample `positions` rows of `classes` logits, `step` elements
/// from one to the next. Labels: one of each row; weights: one of each sample. With `other` there are two
/// labels, the first by its mix weight.
struct LogitRows {
  int64_t samples, positions, classes;
  const int32_t* label;
  const float* weight;
  const int32_t* other;
  const float* mix_weight;
  int64_t step;

  int64_t count() const { return samples * positions; }
};

/// Of each row, the largest logit and the sum of exp(x - largest): made by a loss, read by its gradient. Null
/// where nothing reads them.
struct SoftmaxOfRows {
  float *largest, *sum;
};
struct KeptSoftmax {
  const float *largest, *sum;
};

/// Memory for the sums of parts.
int64_t loss_workspace_bytes(int64_t rows, int64_t classes);

cudaError_t launch_cross_entropy(const LogitRows& rows, DType dtype, const void* logits, double smoothing,
                                 const SoftmaxOfRows& softmax, const BlockSums& memory, float* loss,
                                 cudaStream_t stream);
/// `own`: the classes of these logits among those of all ranks.
cudaError_t launch_cross_entropy_backward(const LogitRows& rows, const OwnClasses& own, DType dtype,
                                          const void* logits, const KeptSoftmax& softmax, double smoothing,
                                          const float* dloss, void* dlogits, int64_t dlogits_step,
                                          cudaStream_t stream);
/// sums (rows, LogitSum::kFields); class_weights of all ranks' classes, or null.
cudaError_t launch_logit_sums(const LogitRows& rows, const OwnClasses& own, DType dtype, const void* logits,
                              const float* class_weights, float* sums, cudaStream_t stream);
/// counts (rows) of ClassesBefore, from the sums of all ranks.
cudaError_t launch_classes_before(const LogitRows& rows, const OwnClasses& own, int64_t ranks, DType dtype,
                                  const void* logits, const float* sums, float* counts, cudaStream_t stream);
/// The hits of the counts of all ranks.
cudaError_t launch_top_k_of_ranks(const LogitRows& rows, int64_t ranks, const float* sums,
                                  const float* counts, int64_t k, int32_t ignored, const BlockSums& memory,
                                  float* hits, cudaStream_t stream);
/// The loss of the ranks' sums (ranks, rows, LogitSum::kFields). `rows.classes` are those of all ranks.
int64_t sums_workspace_bytes(int64_t rows);
cudaError_t launch_cross_entropy_of_ranks(const LogitRows& rows, int64_t ranks, const float* sums,
                                          double smoothing, const SoftmaxOfRows& softmax,
                                          const BlockSums& memory, float* loss, cudaStream_t stream);
cudaError_t launch_top_k(const LogitRows& rows, DType dtype, const void* logits, int64_t k, int32_t ignored,
                         const BlockSums& memory, float* correct, cudaStream_t stream);

}  // namespace trainer::cuda
