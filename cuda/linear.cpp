// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "core/engine/arena.h"
#include "cuda/handler.h"

// y = x wT + bias, with x (N, K), w (O, K) and y (N, O) row-major. cuBLASLt thinks in columns, and a
// row-major matrix is its own transpose column by column: it is asked for yT (O, N) = w xT, w being the
// transpose of its K x O columns. A bias is then added to each column of yT, which is what its epilogue
// offers.

namespace trainer::cuda {
namespace {

constexpr const char* kName = "linear";
/// NVIDIA's advice for Hopper; older GPUs choose less.
constexpr uint64_t kMostWorkspaceBytes = uint64_t{32} << 20;

template <class T>
void set(const MatmulDescriptor& descriptor, cublasLtMatmulDescAttributes_t attribute, T value) {
  check(cublasLtMatmulDescSetAttribute(descriptor.get(), attribute, &value, sizeof value), kName);
}

template <class T>
void set(const MatmulPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value), kName);
}

MatrixLayout column_major(int64_t rows, int64_t columns) {
  return make<MatrixLayout>(kName, cublasLtMatrixLayoutCreate, CUDA_R_32F, static_cast<uint64_t>(rows),
                            static_cast<uint64_t>(columns), rows);
}

/// The product as cuBLASLt is told of it, in fp32 throughout: TF32 would have to be asked for.
struct Problem {
  explicit Problem(const OpContext& context)
      : batch(context.inputs[0].shape[0]),
        features(context.inputs[1].shape[1]),
        outputs(context.inputs[1].shape[0]),
        bias(!context.inputs[2].shape.empty()) {
    const bool relu = static_cast<const Linear&>(context.op).relu;
    set(descriptor, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (bias) {
      set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE,
          relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
      // While algorithms are sought, the address stands for its alignment only.
      set(descriptor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, uint64_t{kArenaAlignment});
    } else if (relu) {
      set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU);
    }
  }

  int64_t batch, features, outputs;
  bool bias;
  MatmulDescriptor descriptor =
      make<MatmulDescriptor>(kName, cublasLtMatmulDescCreate, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  MatrixLayout w = column_major(features, outputs);
  MatrixLayout x = column_major(features, batch);
  MatrixLayout y = column_major(outputs, batch);
};

/// Weights and results begin where the plan puts them. A batch may begin at any row of a larger one.
MatmulPreference preference(const Problem& problem) {
  MatmulPreference wanted = make<MatmulPreference>(kName, cublasLtMatmulPreferenceCreate);
  constexpr uint32_t kPlanned = kArenaAlignment;
  const uint64_t row_bytes = static_cast<uint64_t>(problem.features) * sizeof(float);
  const auto row = static_cast<uint32_t>(std::min<uint64_t>(kPlanned, row_bytes & (~row_bytes + 1)));
  set(wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspaceBytes);
  set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kPlanned);
  set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, row);
  set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kPlanned);
  set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kPlanned);
  return wanted;
}

/// An algorithm is eight words without pointers; as text it can be kept with a plan.
std::string to_text(const cublasLtMatmulAlgo_t& algorithm) {
  return fmt::format("{:x}", fmt::join(algorithm.data, ","));
}

cublasLtMatmulAlgo_t to_algorithm(const std::string& text) {
  cublasLtMatmulAlgo_t algorithm{};
  const char* at = text.c_str();
  for (auto& word : algorithm.data) {
    char* end = nullptr;
    word = std::strtoull(at, &end, 16);
    if (end == at) throw std::logic_error("not an algorithm of cuBLASLt: " + text);
    at = *end == ',' ? end + 1 : end;
  }
  return algorithm;
}

Choice select_linear(const Device& device, const OpContext& context, const OpenLayouts& /*inputs*/) {
  const Problem problem(context);
  const MatmulPreference wanted = preference(problem);
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(device.blas.get(), problem.descriptor.get(), problem.w.get(),
                                       problem.x.get(), problem.y.get(), problem.y.get(), wanted.get(), 1,
                                       &best, &found),
        kName);
  check(found == 1 ? best.state : CUBLAS_STATUS_NOT_SUPPORTED, kName);
  Choice choice = row_major(context, "cublaslt");
  choice.algorithm = to_text(best.algo);
  choice.workspace_bytes = static_cast<int64_t>(best.workspaceSize);
  return choice;
}

class LinearKernel final : public Kernel {
 public:
  LinearKernel(const Device& device, const OpContext& context, const Choice& choice, Slots slots)
      : problem_(context),
        algorithm_(to_algorithm(choice.algorithm)),
        workspace_bytes_(static_cast<size_t>(choice.workspace_bytes)),
        slots_(std::move(slots)),
        blas_(device.blas.get()),
        stream_(device.stream.get()) {}

  void run() override {
    if (problem_.bias) set(problem_.descriptor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, *slots_.inputs[2]);
    const float alpha = 1, beta = 0;
    float* y = at<float>(slots_.outputs[0]);
    check(cublasLtMatmul(blas_, problem_.descriptor.get(), &alpha, at<const float>(slots_.inputs[1]),
                         problem_.w.get(), at<const float>(slots_.inputs[0]), problem_.x.get(), &beta, y,
                         problem_.y.get(), y, problem_.y.get(), &algorithm_,
                         workspace_bytes_ == 0 ? nullptr : *slots_.workspace, workspace_bytes_, stream_),
          kName);
  }

 private:
  Problem problem_;
  cublasLtMatmulAlgo_t algorithm_;
  size_t workspace_bytes_;
  Slots slots_;
  cublasLtHandle_t blas_;
  cudaStream_t stream_;
};

std::optional<std::string> why_not_linear(const OpContext& context) {
  for (const TensorSpec& spec : context.inputs) {
    if (spec.dtype != DType::f32) {
      return fmt::format("its GPU kernel computes in f32 only, not {}", to_string(spec.dtype));
    }
  }
  return std::nullopt;
}

}  // namespace

void add_linear(Handlers& handlers) {
  auto compile = [](const Device& device, const OpContext& context, const Choice& choice,
                    const Slots& slots) -> std::unique_ptr<Kernel> {
    return std::make_unique<LinearKernel>(device, context, choice, slots);
  };
  handlers[typeid(Linear)] = {select_linear, compile, why_not_linear};
}

}  // namespace trainer::cuda
