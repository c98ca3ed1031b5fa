// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/engine/planner.h"
#include "cuda/check.h"

namespace trainer::cuda {

/// Operations after the product in the same kernel. sum_a, sum_b: the sum of op(a), op(b) over the summed
/// index goes to the bias's address, which makes it a bias's gradient.
enum class Epilogue { none, bias, sum_a, sum_b };

/// Operations after the epilogue: gelu_tanh, which may also keep its input; or the gradient of gelu_tanh of
/// the kept input, a matrix of d's shape and type. Or relu, which keeps its mask, and its gradient by that: a
/// bit for each element, in columns of kept_rows().
enum class Activation { none, gelu, gelu_kept, gelu_gradient, relu_kept, relu_gradient };

/// d = op(a) op(b) in cuBLASLt's terms: column-major, dense matrices. A row-major matrix is then its own
/// transpose. Sums are f32. In a batch each matrix is `stride` elements after the one before.
struct MatrixProduct {
  struct Operand {
    int64_t rows = 0, columns = 0;
    DType dtype = DType::f32;
    bool transposed = false;
    uint32_t alignment = 64;  ///< bytes, of its address
    int64_t stride = 0;       ///< elements from a matrix of a batch to the next
    int64_t step = 0;         ///< elements from a column to the next; 0: rows

    int64_t elements() const { return (columns - 1) * (step != 0 ? step : rows) + rows; }
  };
  Operand a, b, d;
  int64_t batch = 1;  ///< products of this many matrices; only without an epilogue
  Epilogue epilogue = Epilogue::none;
  Activation activation = Activation::none;  ///< not with sum_a and sum_b
  DType bias_dtype = DType::f32;
  float beta = 0;     ///< times a matrix of d's shape and type, which may be d itself, is added
  bool tf32 = false;  ///< f32 factors may be rounded to 10 bits, for tensor cores

  /// From NVIDIA's guide, because cuBLASLt does not report it: since CUDA 11 it does so for all dimensions.
  bool on_tensor_cores() const { return tf32 || a.dtype != DType::f32; }
  bool keeps_or_reads() const { return activation != Activation::none && activation != Activation::gelu; }
  bool has_mask() const {
    return activation == Activation::relu_kept || activation == Activation::relu_gradient;
  }
  /// Elements from one column of the kept matrix to the next.
  int64_t kept_rows() const { return has_mask() ? (d.rows + kMaskRows - 1) / kMaskRows * kMaskRows : d.rows; }
  int64_t mask_bytes() const { return kept_rows() / 8 * d.columns; }
  /// Terms of each sum.
  int64_t terms() const { return a.transposed ? a.rows : a.columns; }
  /// The number of parts that long sums must be split into for few tiles of d to keep a GPU busy; else 1.
  int64_t parts_of_sum() const;
  std::string text() const;

  static constexpr int64_t kMaskRows = 128;  ///< EPILOGUE_AUX_LD of a mask must be divisible by it
};

/// One of cuBLASLt's algorithms.
struct MatmulAlgorithm {
  std::string text;  ///< its configuration, equal in all processes
  int64_t workspace_bytes = 0;
};

/// The largest workspace that an algorithm may need: NVIDIA's advice for Hopper; older GPUs choose less.
constexpr int64_t kMostMatmulWorkspace = int64_t{32} << 20;

/// Number of algorithms of a product that the heuristics are asked for, and that runtime.autotune times.
constexpr int kMatmulsTimed = 4;

/// The alignment of a batch: it may begin at any sample of a larger one. All others begin at addresses from
/// the plan.
uint32_t sample_alignment(const TensorSpec& x);

/// The reason why cuBLASLt cannot multiply the operation's first two inputs; absent: there is none.
std::optional<std::string> why_no_factors(const OpContext& context);
/// The text for a product that cuBLASLt has no algorithm for.
std::string no_algorithm(const MatrixProduct& product, const std::string& gpu);

/// The heuristics' best for the product, at most `most` of kMatmulsTimed; empty if there is none. If sums
/// should be split (parts_of_sum) and nothing follows the product, the last one does, if there is such a one.
std::vector<MatmulAlgorithm> matmul_algorithms(cublasLtHandle_t blas, const MatrixProduct& product, int most);

/// A product that is ready to run.
class Matmul {
 public:
  /// Addresses on the GPU. Those that the product does not use may be null.
  struct Memory {
    const void *a, *b;
    void* d;
    const void* added = nullptr;
    void* bias = nullptr;
    void* kept = nullptr;
    void* workspace = nullptr;
  };
  /// By one of matmul_algorithms(blas, product).
  Matmul(cublasLtHandle_t blas, const MatrixProduct& product, const MatmulAlgorithm& algorithm);
  void run(cublasLtHandle_t blas, const Memory& memory, cudaStream_t stream) const;

 private:
  friend std::vector<MatmulAlgorithm> matmul_algorithms(cublasLtHandle_t, const MatrixProduct&, int);
  using Answer = cublasLtMatmulHeuristicResult_t;  ///< with the library's own structure of an algorithm

  explicit Matmul(const MatrixProduct& product);
  std::vector<Answer> heuristics(cublasLtHandle_t blas, const MatrixProduct& product) const;
  /// The first of the heuristics' algorithms that can add up a sum in this many parts, made to do so.
  std::optional<Answer> split(cublasLtHandle_t blas, const std::vector<Answer>& found, int64_t parts) const;
  /// As matmul_algorithms.
  static std::vector<Answer> answers(cublasLtHandle_t blas, const MatrixProduct& product, int most);

  bool has_bias_, has_kept_;
  float beta_;
  MatmulDescriptor descriptor_;
  MatrixLayout a_, b_, d_;
  cublasLtMatmulAlgo_t algorithm_{};
  size_t workspace_bytes_ = 0;
};

}  // namespace trainer::cuda
