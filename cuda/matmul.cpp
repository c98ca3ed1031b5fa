// SPDX-License-Identifier: Apache-2.0
#include "cuda/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "core/engine/arena.h"

namespace trainer::cuda {
namespace {

constexpr const char* kName = "a matrix product";

template <class T>
void set(const MatmulDescriptor& descriptor, cublasLtMatmulDescAttributes_t attribute, T value) {
  check(cublasLtMatmulDescSetAttribute(descriptor.get(), attribute, &value, sizeof value), kName);
}

template <class T>
void set(const MatmulPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value), kName);
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      throw std::logic_error(fmt::format("no product of {}", to_string(dtype)));
  }
}

template <class T>
void set(const MatrixLayout& layout, cublasLtMatrixLayoutAttribute_t attribute, T value) {
  check(cublasLtMatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof value), kName);
}

MatrixLayout layout(const MatrixProduct::Operand& operand, int64_t batch) {
  MatrixLayout made = make<MatrixLayout>(
      kName, cublasLtMatrixLayoutCreate, data_type(operand.dtype), static_cast<uint64_t>(operand.rows),
      static_cast<uint64_t>(operand.columns), operand.step != 0 ? operand.step : operand.rows);
  if (batch == 1) return made;
  set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
  set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, operand.stride);
  return made;
}

cublasLtEpilogue_t epilogue_of(const MatrixProduct& product) {
  const bool bias = product.epilogue == Epilogue::bias;
  switch (product.activation) {
    case Activation::none:
      break;
    case Activation::gelu:
      return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Activation::gelu_kept:
      return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Activation::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case Activation::relu_kept:
      return bias ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_RELU_AUX;
    case Activation::relu_gradient:
      return CUBLASLT_EPILOGUE_DRELU;
  }
  switch (product.epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::sum_a:
      return CUBLASLT_EPILOGUE_BGRADA;
    case Epilogue::sum_b:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

MatmulPreference preference(const MatrixProduct& product) {
  MatmulPreference wanted = make<MatmulPreference>(kName, cublasLtMatmulPreferenceCreate);
  set(wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kMostMatmulWorkspace));
  set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, product.a.alignment);
  set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, product.b.alignment);
  set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, product.d.alignment);
  set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, product.d.alignment);
  // Otherwise an algorithm that splits the sum may add its parts up in d's type.
  if (product.d.dtype != DType::f32)
    set(wanted, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  return wanted;
}

/// Whether the algorithm can be given the value.
template <class T>
bool set(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute, T value) {
  return cublasLtMatmulAlgoConfigSetAttribute(&algorithm, attribute, &value, sizeof value) ==
         CUBLAS_STATUS_SUCCESS;
}

/// Its configuration. The structure itself is not comparable: cuBLASLt 13.1 leaves some of its bytes unset.
std::string to_text(const cublasLtMatmulAlgo_t& algorithm) {
  const auto value = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, auto zero) {
    size_t bytes = 0;
    check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &zero, sizeof zero, &bytes), kName);
    return zero;
  };
  std::string text = fmt::format("a{}", value(CUBLASLT_ALGO_CONFIG_ID, int32_t{}));
  for (const auto attribute : {CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_ALGO_CONFIG_STAGES_ID,
                               CUBLASLT_ALGO_CONFIG_SPLITK_NUM, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                               CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION})
    text += fmt::format(",{}", value(attribute, uint32_t{}));
  for (const auto attribute : {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID})
    text += fmt::format(",{}", value(attribute, uint16_t{}));
  return text;
}

}  // namespace

std::string MatrixProduct::text() const {
  constexpr const char* kEpilogues[] = {"", " bias", " sum_a", " sum_b"};
  constexpr const char* kActivations[] = {"", " gelu", " gelu kept", " dgelu", " relu kept", " drelu"};
  const auto operand = [](const Operand& o) {
    return fmt::format("{}x{}{}{} {}/{}", o.rows, o.columns, o.step != 0 ? fmt::format(" by {}", o.step) : "",
                       o.transposed ? "T" : "", to_string(o.dtype), o.alignment);
  };
  std::string text = fmt::format("{} {} {} {}{}{}{}", operand(d), beta == 0 ? "=" : "+=", operand(a),
                                 operand(b), tf32 ? " tf32" : "", kEpilogues[static_cast<size_t>(epilogue)],
                                 kActivations[static_cast<size_t>(activation)]);
  if (batch > 1) text += fmt::format(" x {} at {}, {}, {}", batch, d.stride, a.stride, b.stride);
  return epilogue == Epilogue::none ? text : fmt::format("{} {}", text, to_string(bias_dtype));
}

int64_t MatrixProduct::parts_of_sum() const {
  constexpr int64_t kTile = 128, kMostTiles = 16, kLeastTerms = int64_t{1} << 15;
  constexpr int64_t kBlocks = 128;  // one on about each multiprocessor
  const int64_t tiles = ((d.rows + kTile - 1) / kTile) * ((d.columns + kTile - 1) / kTile);
  if (batch != 1 || tiles > kMostTiles || terms() < kLeastTerms) return 1;
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(kBlocks / tiles)));
}

uint32_t sample_alignment(const TensorSpec& x) {
  const auto bytes = static_cast<uint64_t>(numel(x.shape) / x.shape[0] * bytes_per_element(x.dtype));
  return static_cast<uint32_t>(std::min<uint64_t>(kArenaAlignment, bytes & (~bytes + 1)));
}

std::optional<std::string> why_no_factors(const OpContext& context) {
  const DType dtype = context.inputs[0].dtype, other = context.inputs[1].dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    return fmt::format("cuBLASLt multiplies f32, f16 and bf16 here, not {}", to_string(dtype));
  if (other != dtype)
    return fmt::format("cuBLASLt needs factors of one type, got {} and {}", to_string(dtype),
                       to_string(other));
  return std::nullopt;
}

std::string no_algorithm(const MatrixProduct& product, const std::string& gpu) {
  return fmt::format("cuBLASLt {} has no algorithm for {} on {}", cublasLtGetVersion(), product.text(), gpu);
}

Matmul::Matmul(const MatrixProduct& product)
    : has_bias_(product.epilogue != Epilogue::none),
      has_kept_(product.keeps_or_reads()),
      beta_(product.beta),
      descriptor_(make<MatmulDescriptor>(kName, cublasLtMatmulDescCreate,
                                         product.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                         CUDA_R_32F)),
      a_(layout(product.a, product.batch)),
      b_(layout(product.b, product.batch)),
      d_(layout(product.d, product.batch)) {
  set(descriptor_, CUBLASLT_MATMUL_DESC_TRANSA, product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(descriptor_, CUBLASLT_MATMUL_DESC_TRANSB, product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(descriptor_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(product));
  // During the search for algorithms an address only represents its alignment.
  if (has_kept_) {
    set(descriptor_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.kept_rows());
    set(descriptor_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, uint64_t{product.d.alignment});
  }
  if (!has_bias_) return;
  set(descriptor_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(product.bias_dtype));
  set(descriptor_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, uint64_t{product.d.alignment});
}

Matmul::Matmul(cublasLtHandle_t blas, const MatrixProduct& product, const MatmulAlgorithm& algorithm)
    : Matmul(product) {
  workspace_bytes_ = static_cast<size_t>(algorithm.workspace_bytes);
  for (const Answer& result : answers(blas, product, kMatmulsTimed)) {
    if (to_text(result.algo) != algorithm.text) continue;
    algorithm_ = result.algo;
    return;
  }
  throw std::logic_error("not an algorithm of cuBLASLt: " + algorithm.text);
}

void Matmul::run(cublasLtHandle_t blas, const Memory& memory, cudaStream_t stream) const {
  if (has_bias_) set(descriptor_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.bias);
  if (has_kept_) set(descriptor_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, memory.kept);
  const float alpha = 1;
  check(cublasLtMatmul(blas, descriptor_.get(), &alpha, memory.a, a_.get(), memory.b, b_.get(), &beta_,
                       beta_ != 0 ? memory.added : memory.d, d_.get(), memory.d, d_.get(), &algorithm_,
                       workspace_bytes_ == 0 ? nullptr : memory.workspace, workspace_bytes_, stream),
        kName);
}

std::vector<Matmul::Answer> Matmul::heuristics(cublasLtHandle_t blas, const MatrixProduct& product) const {
  const MatmulPreference wanted = preference(product);
  std::vector<Answer> results(kMatmulsTimed);
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(blas, descriptor_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
                                     wanted.get(), kMatmulsTimed, results.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check(status, kName);
  results.resize(static_cast<size_t>(count));
  std::erase_if(results, [](const Answer& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
  return results;
}

std::optional<Matmul::Answer> Matmul::split(cublasLtHandle_t blas, const std::vector<Answer>& found,
                                            int64_t parts) const {
  for (Answer one : found) {
    if (set(one.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, static_cast<int32_t>(parts)) &&
        set(one.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
            uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) &&
        cublasLtMatmulAlgoCheck(blas, descriptor_.get(), a_.get(), b_.get(), d_.get(), d_.get(), &one.algo,
                                &one) == CUBLAS_STATUS_SUCCESS &&
        static_cast<int64_t>(one.workspaceSize) <= kMostMatmulWorkspace)
      return one;
  }
  return std::nullopt;
}

std::vector<Matmul::Answer> Matmul::answers(cublasLtHandle_t blas, const MatrixProduct& product, int most) {
  const Matmul matmul(product);
  std::vector<Answer> found = matmul.heuristics(blas, product);
  std::optional<Answer> split;
  const int64_t parts = product.parts_of_sum();
  const bool is_alone = product.epilogue == Epilogue::none && product.activation == Activation::none;
  if (parts > 1 && is_alone) split = matmul.split(blas, found, parts);
  if (static_cast<int>(found.size()) > most) found.resize(static_cast<size_t>(most));
  if (split) found.push_back(*split);
  return found;
}

std::vector<MatmulAlgorithm> matmul_algorithms(cublasLtHandle_t blas, const MatrixProduct& product,
                                               int most) {
  std::vector<MatmulAlgorithm> found;
  for (const auto& result : Matmul::answers(blas, product, most))
    found.push_back({to_text(result.algo), static_cast<int64_t>(result.workspaceSize)});
  return found;
}

}  // namespace trainer::cuda
