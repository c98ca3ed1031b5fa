// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>

#include "tests/cuda_standin/matmul.h"

// cuBLASLt, as far as the CUDA backend calls it. Its algorithms all compute the same, and differ in their
// requirements: a workspace or none, and the full alignment that the caller promised.

using namespace trainer::standin;  // NOLINT(google-build-using-namespace): what follows is C's

namespace {

struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;    // ways to add up the parts of a split sum
  std::array<uint32_t, 4> alignments{256, 256, 256, 256};  // of a, b, c, d
};

/// Meaning of the eight words of an algorithm.
struct Algorithm {
  uint64_t number, workspace, product;
  std::array<uint32_t, 4> alignments;
  int32_t parts;       ///< of each sum
  uint32_t reduction;  ///< that adds them up

  /// Only this one can split sums.
  bool can_split() const { return number == 1; }
  uint64_t workspace_for(const MatrixLayout& d) const {
    constexpr uint64_t kPart = sizeof(float);
    return workspace +
           (parts > 1 ? static_cast<uint64_t>(parts) * static_cast<uint64_t>(d.count()) * kPart : 0);
  }
};

template <class Object>
Object* object(void* handle) {
  return static_cast<Object*>(handle);
}
template <class Object>
const Object& constant(const void* handle) {
  return *static_cast<const Object*>(handle);
}

template <class Value>
cublasStatus_t set(Value& to, const void* from, size_t bytes) {
  if (bytes != sizeof(Value)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t refused(const std::string& reason) {
  refuse("cuBLASLt: " + reason);
  return CUBLAS_STATUS_INVALID_VALUE;
}

/// As refused, where callers may ask first whether it is supported.
cublasStatus_t not_supported(const std::string& reason) {
  refuse("cuBLASLt: " + reason);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

/// One number for all properties that determine the choice of an algorithm.
uint64_t product_of(const MatmulDescriptor& how, const MatrixLayout& a, const MatrixLayout& b,
                    const MatrixLayout& d) {
  std::string text = fmt::format("{} {} {} {} {} {}", int{how.compute}, how.transpose_a, how.transpose_b,
                                 int{how.epilogue}, how.bias_type, how.kept_leading);
  for (const MatrixLayout* matrix : {&a, &b, &d}) {
    text += fmt::format(" {}x{} {} {} {} {}", matrix->rows, matrix->columns, int{matrix->type}, matrix->batch,
                        matrix->stride, matrix->leading);
  }
  return std::hash<std::string>()(text);
}

/// As cublasLt.h has it (CUBLASLT_MATMUL_DESC_BIAS_POINTER and BIAS_DATA_TYPE).
bool has_other_bias(const MatmulDescriptor& how, const MatrixLayout& d) {
  const Epilogue epilogue = epilogue_of(how, d);
  return (epilogue.has_bias() || epilogue.is_of_bias()) && bias_type_of(how, d) != d.type;
}

bool is_supported(const MatmulDescriptor& how, const MatrixLayout& d) {
  return (d.batch == 1 || how.epilogue == CUBLASLT_EPILOGUE_DEFAULT) && epilogue_of(how, d).is_supported();
}

bool adds_in_low(const Preference& wanted, const MatrixLayout& d) {
  const uint32_t in_type_of_d = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  return d.type != CUDA_R_32F && (wanted.reductions & in_type_of_d) != 0;
}

bool is_aligned(const void* address, uint64_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

/// An algorithm's requirements for addresses; the reason for a refusal, or empty.
std::string complaint(const Algorithm& algorithm, const Matmul& product, const void* workspace,
                      size_t bytes) {
  if (algorithm.product != product_of(product.how, product.a, product.b, product.d))
    return "an algorithm for another product";
  if (product.a.batch != product.d.batch || product.b.batch != product.d.batch)
    return "matrices of batches that differ";
  if (bytes < algorithm.workspace_for(product.d)) return "too small a workspace";
  if (bytes > 0 && (workspace == nullptr || !is_aligned(workspace, 256)))
    return "a workspace that is not aligned to 256 bytes";
  const bool has_kept = epilogue_of(product.how, product.d).has_kept();
  if (has_kept && (product.how.kept == nullptr || !is_aligned(product.how.kept, 16)))
    return "what a gelu or relu keeps is not aligned to 16 bytes";
  if (overlaps(product)) return "a product that is written over what it reads";
  const std::array<const void*, 4> addresses{product.a_data, product.b_data,
                                             product.c_data == nullptr ? product.d_data : product.c_data,
                                             product.d_data};
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (!is_aligned(addresses[i], algorithm.alignments[i]))
      return "a matrix is aligned to less than was promised";
  }
  return "";
}

/// The invented time: faster than any engine of cuDNN's stand-in but for sums of bias gradients over many
/// rows. Split sums are the fastest.
double seconds_of(const Algorithm& algorithm, const Matmul& product) {
  constexpr int64_t kManyRows = 1 << 15;
  if (epilogue_of(product.how, product.d).is_of_bias() && product.terms() >= kManyRows) return 8 * kShortest;
  return kShortest / static_cast<double>(algorithm.parts > 1 ? 4 : algorithm.number == 1 ? 2 : 1);
}

}  // namespace

struct cublasLtContext {};

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() {
  return 130000;
}
const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "an error of cuBLASLt";
}
const char* cublasLtGetStatusString(cublasStatus_t) {
  return last_refusal().c_str();
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t) {
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new MatmulDescriptor{.compute = compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  delete object<MatmulDescriptor>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              size_t bytes) {
  auto& how = *object<MatmulDescriptor>(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(how.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(how.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(how.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(how.bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(how.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(how.kept_leading, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(how.kept, value, bytes);
    default:
      return refused("an attribute of a product that the stand-in does not know");
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  if (leading < static_cast<int64_t>(rows)) return refused("a matrix with columns that overlap");
  auto* layout = new MatrixLayout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns)};
  layout->leading = leading;
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  auto& layout = *object<MatrixLayout>(handle);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(layout.batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(layout.stride, value, bytes);
    default:
      return refused("an attribute of a matrix that the stand-in does not know");
  }
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  delete object<MatrixLayout>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  delete object<Preference>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  auto& wanted = *object<Preference>(handle);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return set(wanted.workspace, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return set(wanted.reductions, value, bytes);
  const int place = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (place < 0 || place > 3) return refused("a preference that the stand-in does not know");
  return set(wanted.alignments[static_cast<size_t>(place)], value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t handle,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  const std::lock_guard lock(library_mutex());
  log_call("cublasLtMatmulAlgoGetHeuristic");
  const auto& how = constant<MatmulDescriptor>(handle);
  const auto& wanted = constant<Preference>(preference);
  *count = 0;
  if (Streams::all().is_capturing()) {
    Streams::all().invalidate_captures();
    return refused("heuristics are asked while a stream is captured");
  }
  if (has_other_bias(how, constant<MatrixLayout>(d)))
    return not_supported("a bias, or its gradient, of another type than the product");
  if (!is_supported(how, constant<MatrixLayout>(d))) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (adds_in_low(wanted, constant<MatrixLayout>(d)))
    return refused("a sum may be split, and its parts added up in a low type");
  constexpr uint64_t kWorkspaces[] = {1 << 20, 0, 8 << 20, 0};
  for (; *count < std::min(most, 4); ++*count) {
    auto& result = results[*count];
    result = {};
    const Algorithm algorithm{.number = static_cast<uint64_t>(*count),
                              .workspace = std::min(wanted.workspace, kWorkspaces[*count]),
                              .product = product_of(how, constant<MatrixLayout>(a), constant<MatrixLayout>(b),
                                                    constant<MatrixLayout>(d)),
                              .alignments = wanted.alignments,
                              .parts = 1,
                              .reduction = CUBLASLT_REDUCTION_SCHEME_NONE};
    static_assert(sizeof algorithm <= sizeof result.algo.data);
    std::memcpy(result.algo.data, &algorithm, sizeof algorithm);
    result.algo.data[7] = static_cast<uint64_t>(getpid());  // as cuBLASLt, which leaves some bytes unset
    result.workspaceSize = algorithm.workspace;
    result.state = *count == 3 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  Algorithm known{};
  std::memcpy(&known, algorithm->data, sizeof known);
  std::memset(value, 0, bytes);
  const auto number = static_cast<uint16_t>(known.number);
  if (attribute == CUBLASLT_ALGO_CONFIG_ID) std::memcpy(value, &number, sizeof number);
  if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM) std::memcpy(value, &known.parts, sizeof known.parts);
  if (attribute == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)
    std::memcpy(value, &known.reduction, sizeof known.reduction);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  Algorithm known{};
  std::memcpy(&known, algorithm->data, sizeof known);
  cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM) status = set(known.parts, value, bytes);
  if (attribute == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) status = set(known.reduction, value, bytes);
  std::memcpy(algorithm->data, &known, sizeof known);
  return status;
}

/// Whether the stand-in has an algorithm as it was changed.
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t handle,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const auto& how = constant<MatmulDescriptor>(handle);
  const auto& of_d = constant<MatrixLayout>(d);
  Algorithm known{};
  std::memcpy(&known, algorithm->data, sizeof known);
  if (known.product != product_of(how, constant<MatrixLayout>(a), constant<MatrixLayout>(b), of_d))
    return refused("an algorithm for another product");
  if ((known.parts > 1) != (known.reduction != CUBLASLT_REDUCTION_SCHEME_NONE))
    return refused("a split sum without a way to add up its parts, or the reverse");
  if (known.parts > 1 && (!known.can_split() || how.epilogue != CUBLASLT_EPILOGUE_DEFAULT))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = known.workspace_for(of_d);
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* chosen,
                              void* workspace, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(library_mutex());
  const float share = constant<float>(beta);
  if (constant<float>(alpha) != 1) return refused("a factor of the product other than 1");
  const Matmul product{constant<MatmulDescriptor>(how),
                       constant<MatrixLayout>(a_layout),
                       constant<MatrixLayout>(b_layout),
                       constant<MatrixLayout>(d_layout),
                       a,
                       b,
                       share == 0 ? nullptr : c,
                       d,
                       share};
  Algorithm algorithm{};
  std::memcpy(&algorithm, chosen->data, sizeof algorithm);
  const std::string problem = complaint(algorithm, product, workspace, bytes);
  if (!problem.empty()) return refused(problem);
  std::vector<Range> ranges = product.ranges();
  if (bytes > 0) ranges.push_back({workspace, bytes});
  const cudaError_t status = runtime_call("cublasLtMatmul", [&] {
    return enqueue_on_device(stream, {.name = "cublasLtMatmul",
                                      .work =
                                          [=] {
                                            if (bytes > 0) std::memset(workspace, 0xFF, bytes);
                                            product.run();
                                          },
                                      .ranges = std::move(ranges),
                                      .seconds = seconds_of(algorithm, product)});
  });
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
