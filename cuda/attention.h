// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"
#include "core/graph/ops/attention.h"

namespace trainer::cuda {

/// Sequences as stored: `stride` elements from one position to the next, of all heads of queries, or of all
/// heads of keys or values. Packed ones are interleaved.
struct Sequences {
  const void* data = nullptr;
  int stride = 0;
};

/// Inputs of attention and their sizes. `start`, `first` and, without dropout, `sample` and `step` may be
/// nullptr.
struct AttentionCall {
  AttentionSettings settings;
  DropoutSettings dropout;  ///< if there is one
  bool drops = false;
  float kept = 1;   ///< factor of the elements that dropout keeps
  float scale = 1;  ///< of the scores
  int samples = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, size = 0;
  Sequences q, k, v;
  const int32_t *first = nullptr, *start = nullptr, *sample = nullptr, *step = nullptr;
};

/// Further inputs of the gradient, and its outputs: in the layout of q, k and v, or nullptr.
struct AttentionGradients {
  const void *dy, *y;  ///< (samples, queries, heads * size)
  const float* lse;    ///< (samples, heads, queries)
  void *dq, *dk, *dv;
};

const AttentionSettings& attention_settings(const Operation& op);

/// An upper bound of the blocks of the largest launch; a GPU takes 2^31 - 1.
double attention_blocks(const AttentionCall& call);

/// y (samples, queries, heads * size) and its logarithms of sums (samples, heads, queries).
cudaError_t launch_attention(const AttentionCall& call, DType dtype, void* y, float* lse,
                             cudaStream_t stream);

int64_t attention_workspace_bytes(const AttentionCall& call);
/// Sums in one order, without atomics: a block for 64 queries or 64 keys loops over all of the others.
cudaError_t launch_attention_backward(const AttentionCall& call, DType dtype, const AttentionGradients& of,
                                      void* workspace, cudaStream_t stream);

}  // namespace trainer::cuda
