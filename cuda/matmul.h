// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "cuda/check.h"

namespace trainer::cuda {

/// What follows the product in the same kernel. sum_b: the sum of op(b) over the summed index goes to the
/// bias's address, which makes it a bias's gradient.
enum class Epilogue { none, bias, sum_b };

/// d = op(a) op(b) as cuBLASLt thinks of it: matrices column by column, dense. A row-major matrix is its own
/// transpose that way. Sums are f32.
struct MatrixProduct {
  struct Operand {
    int64_t rows = 0, columns = 0;
    DType dtype = DType::f32;
    bool transposed = false;
    uint32_t alignment = 64;  ///< bytes, of its address
  };
  Operand a, b, d;
  Epilogue epilogue = Epilogue::none;
  DType bias_dtype = DType::f32;
  bool tf32 = false;  ///< f32 factors may be rounded to 10 bits, for tensor cores

  std::string text() const;
};

/// One of cuBLASLt's ways: eight words without pointers, as text.
struct MatmulAlgorithm {
  std::string text;
  int64_t workspace_bytes = 0;
};

/// The most workspace that an algorithm may want: NVIDIA's advice for Hopper; older GPUs choose less.
constexpr int64_t kMostMatmulWorkspace = int64_t{32} << 20;

/// The heuristics' best for the product, at most `most`; empty where there is none.
std::vector<MatmulAlgorithm> matmul_algorithms(cublasLtHandle_t blas, const MatrixProduct& product, int most);

/// A product that is ready to run.
class Matmul {
 public:
  explicit Matmul(const MatrixProduct& product);
  /// Takes effect with the next run.
  void use(const MatmulAlgorithm& algorithm);
  void run(cublasLtHandle_t blas, const void* a, const void* b, void* d, void* bias, void* workspace,
           cudaStream_t stream) const;

 private:
  friend std::vector<MatmulAlgorithm> matmul_algorithms(cublasLtHandle_t, const MatrixProduct&, int);

  bool has_bias_;
  MatmulDescriptor descriptor_;
  MatrixLayout a_, b_, d_;
  cublasLtMatmulAlgo_t algorithm_{};
  size_t workspace_bytes_ = 0;
};

}  // namespace trainer::cuda
