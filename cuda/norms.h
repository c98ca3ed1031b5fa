// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/optimizer.h"

namespace trainer::cuda {

/// Memory for the sums of parts of tensors of these sizes.
int64_t norm_workspace_bytes(std::span<const int64_t> counts);

/// scale = min(1, max_norm / (norm + 1e-6)), norm = the joint 2-norm of all g; norm may be nullptr.
cudaError_t launch_clip(double max_norm, std::span<const ParameterPointers> parameters, void* workspace,
                        float* scale, float* norm, cudaStream_t stream);

/// Each parameter's ratio of Lars, one after another at the beginning of the workspace.
cudaError_t launch_lars_ratios(double trust, double eps, const float* scale,
                               std::span<const ParameterPointers> parameters, void* workspace,
                               cudaStream_t stream);

}  // namespace trainer::cuda
