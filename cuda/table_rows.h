// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "core/base/dtype.h"
#include "core/graph/ops/table_rows.h"

namespace trainer::cuda {

/// A table (rows, width) and the rows that tokens read.
struct TableAccess {
  TableRows row_of;
  int64_t tokens = 0, rows = 0, width = 0;
};

/// y (tokens, width): the row of each token; table and y are of this type.
cudaError_t launch_read_rows(const TableAccess& access, DType dtype, const void* table, void* y,
                             cudaStream_t stream);

/// y = x + the row of each token of an f32 table; x and y (tokens, width) are of this type, and may be one.
cudaError_t launch_add_rows(const TableAccess& access, DType dtype, const void* x, const float* table,
                            void* y, cudaStream_t stream);

int64_t sum_rows_workspace(int64_t tokens);
/// Number of kernels that launch_sum_rows starts.
int sum_rows_kernels(int64_t tokens);
/// table, f32: the sum of dy (tokens, width), of this type, over the tokens that read each row, in one order;
/// zero for a row that no token reads.
cudaError_t launch_sum_rows(const TableAccess& access, DType dtype, const void* dy, float* table,
                            void* workspace, cudaStream_t stream);

}  // namespace trainer::cuda
