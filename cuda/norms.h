// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/block_sums.h"
#include "cuda/optimizer.h"

namespace trainer::cuda {

/// Memory for the sums of parts of tensors of these sizes: the workspace below.
int64_t norm_workspace_bytes(std::span<const int64_t> counts);

/// scale = max_norm / (norm + eps), at most 1 unless it lengthens; norm = the joint 2-norm of all g, and may
/// be nullptr.
struct ClipSettings {
  double max_norm, eps;
  bool lengthens;
};
cudaError_t launch_clip(const ClipSettings& rule, std::span<const ParameterPointers> parameters,
                        const BlockSums& to, float* scale, float* norm, cudaStream_t stream);

/// With scaled gradients: found = 1 if any is not finite, else 0; norm = their joint 2-norm without the
/// scale; factor = min(1, max_norm / (norm + 1e-6)) / scale. found and norm may be nullptr.
struct Unscaled {
  float *factor, *found, *norm;
};
cudaError_t launch_unscale(double max_norm, const float* scale, std::span<const ParameterPointers> parameters,
                           const BlockSums& to, const Unscaled& results, cudaStream_t stream);

/// If the rule adapts: each parameter's ratio, one after another at the beginning of the workspace.
cudaError_t launch_ratios(const update::Rule& rule, const float* scale,
                          std::span<const ParameterPointers> parameters, void* workspace,
                          cudaStream_t stream);

}  // namespace trainer::cuda
