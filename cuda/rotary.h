// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "core/base/dtype.h"
#include "core/graph/ops/rotary.h"
#include "core/graph/ops/table_rows.h"

namespace trainer::cuda {

/// Rows of heads, and each token's row of cosines and sines.
struct RotaryTokens {
  TableRows row_of;
  int64_t tokens = 0, width = 0;
};

/// The operation Rotary; x and y (tokens, width) are of this type, and may be one.
cudaError_t launch_rotary(const RotarySettings& settings, const RotaryTokens& tokens, DType dtype,
                          const void* x, const float* table, void* y, cudaStream_t stream);

}  // namespace trainer::cuda
