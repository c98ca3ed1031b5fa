// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/dtype.h"

namespace trainer::cuda {

/// A row-major matrix of f32, f16 or bf16: features, or images channels last with a pixel in each row.
struct Matrix {
  int64_t rows = 0, columns = 0;
  DType dtype = DType::f32;
  int64_t step = columns;  ///< elements from a row to the next; between them a gap that may get any number

  int64_t elements() const { return rows == 0 ? 0 : (rows - 1) * step + columns; }
};

/// y = relu(y + bias), with an element of bias for each column of y; nullptr: none.
cudaError_t launch_add_bias(const Matrix& shape, void* y, const void* bias, DType bias_dtype, bool relu,
                            cudaStream_t stream);

/// Bytes that launch_column_sums needs for sums of pieces.
constexpr int kColumnSumsKernels = 2;
int64_t column_sums_workspace(const Matrix& shape);
/// sums (columns) = the sum of the rows of y, in f32 and in an order that depends only on the shape.
cudaError_t launch_column_sums(const Matrix& shape, const void* y, void* sums, DType sums_dtype,
                               void* workspace, cudaStream_t stream);

/// The same of the products y * x of two matrices.
cudaError_t launch_column_products(const Matrix& shape, const void* y, const void* x, float* sums,
                                   void* workspace, cudaStream_t stream);

/// y = x * factors, which has an element for each column; y may be x.
cudaError_t launch_scale_columns(const Matrix& shape, const void* x, const float* factors, void* y,
                                 cudaStream_t stream);

}  // namespace trainer::cuda
