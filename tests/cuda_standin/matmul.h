// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <vector>

#include "tests/cuda_standin/epilogue.h"
#include "tests/cuda_standin/products.h"
#include "tests/cuda_standin/runtime.h"

namespace trainer::standin {

constexpr int32_t kTypeOfD = -1;  ///< as the type of a bias

struct MatmulDescriptor {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int32_t bias_type = kTypeOfD;
  void* bias = nullptr;
  int64_t kept_leading = 0;
  void* kept = nullptr;
};

struct MatrixLayout {
  cudaDataType_t type;
  int64_t rows, columns;  // column by column
  int32_t batch = 1;
  int64_t stride = 0;      // elements from a matrix of the batch to the next
  int64_t leading = rows;  // elements from a column to the next
  int64_t count() const { return rows * columns; }
  int64_t spread() const { return (columns - 1) * leading + rows; }
  size_t bytes() const { return static_cast<size_t>((batch - 1) * stride + spread()) * element_bytes(type); }
  int64_t bytes_to_next() const { return stride * static_cast<int64_t>(element_bytes(type)); }
};

Epilogue epilogue_of(const MatmulDescriptor& how, const MatrixLayout& d);
cudaDataType_t bias_type_of(const MatmulDescriptor& how, const MatrixLayout& d);

/// What cublasLtMatmul computes: d = epilogue(op(a) op(b) + beta c), for each matrix of a batch.
struct Matmul {
  MatmulDescriptor how;
  MatrixLayout a, b, d;
  const void *a_data, *b_data, *c_data;  ///< c, if given, is like d
  void* d_data;
  float beta;

  void run() const;
  /// Addends of an element of the product.
  int64_t terms() const { return how.transpose_a == CUBLAS_OP_T ? a.rows : a.columns; }
  /// The memory that it reads or writes; d is the one of this number.
  static constexpr int kRangeOfD = 2;
  std::vector<Range> ranges() const;

 private:
  void multiply(const void* a_matrix, const void* b_matrix, const void* c_matrix, void* d_matrix) const;
  void add_bias(const std::vector<float>& bias, std::vector<float>& sums) const;
};

/// Whether d overlaps something else that the product reads or writes. It may be in c's memory.
bool overlaps(const Matmul& product);

}  // namespace trainer::standin
