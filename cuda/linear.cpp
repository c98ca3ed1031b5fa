// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/linear.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/bias.h"
#include "cuda/cudnn/library.h"
#include "cuda/known_fastest.h"
#include "cuda/linear_problem.h"
#include "cuda/table.h"
#include "cuda/timing.h"

// relu is a kernel of ours: cuBLASLt's own turns NaN into 0, and guards must see NaN. It is cuBLASLt's if
// its mask is kept; guards then look at gradients (hides_nan in core/step/guard.h).
//
// cuBLASLt's gelu is the approximation by tanh, up to 5e-4 from that by erf, and a recipe must mean one
// function on every device: gelu_tanh joins the product, gelu stays an operation of its own.

namespace trainer::cuda {
namespace {

constexpr const char* kFused = "cublaslt";
constexpr const char* kThenRelu = "cublaslt, relu";
constexpr const char* kThenBias = "cublaslt, add_bias";
constexpr const char* kAndColumnSums = "cublaslt, column_sums";
constexpr const char* kColumnSums = "column_sums";

/// EPILOGUE_AUX_LD of a gelu must be divisible by it, and an algorithm requires the same of a mask.
constexpr int64_t kKeptMultiple = 8;

/// GPUs on which a gelu in the product is known to be faster than a kernel after it: llm.c measured this on
/// H100, and the reverse on GPUs with slower memory and weaker tensor cores.
constexpr int kLeastForGelu = 90, kMostForGelu = 103;

MatrixProduct without_epilogue(MatrixProduct product) {
  product.epilogue = Epilogue::none;
  return product;
}

bool sums(Epilogue epilogue) {
  return epilogue == Epilogue::sum_a || epilogue == Epilogue::sum_b;
}

/// y or dy as own kernels see it, row by row.
Matrix as_matrix(const TensorSpec& spec) {
  const Shape rows = as_rows(spec.shape);
  return {.rows = rows[0], .columns = rows[1], .dtype = spec.dtype, .step = row_step(spec)};
}

/// y, what is added to it, and dy: in rows_layout.
void place_rows(const LinearProblem& problem, const OpContext& context, Choice& choice) {
  if (problem.forward == nullptr) {
    const bool of_data = dynamic_cast<const LinearBackwardData*>(&context.op) != nullptr;
    const size_t dy = of_data ? size_t{LinearBackwardData::kDy} : size_t{LinearBackwardWeights::kDy};
    choice.inputs[dy] = rows_layout(context.inputs[dy]);
    return;
  }
  choice.outputs[Linear::kY] = rows_layout(context.outputs[Linear::kY]);
  if (context.has_input(problem.added)) choice.inputs[problem.added] = choice.outputs[Linear::kY];
}

int64_t operand_bytes(const MatrixProduct::Operand& operand) {
  return operand.elements() * bytes_per_element(operand.dtype);
}

/// An algorithm with the product that it is for: the whole one, or that without its epilogue.
struct Selected {
  MatrixProduct product;
  MatmulAlgorithm algorithm;
  /// Its text in a tuning.
  std::string text() const { return product.text() + " by " + algorithm.text; }
};

/// The rest as one with the whole product's epilogue, or without.
MatrixProduct rest_product(const LinearProblem& problem, bool has_epilogue) {
  return has_epilogue ? problem.rest->product : without_epilogue(problem.rest->product);
}

/// The algorithms of a product and of its rest, as one text.
constexpr std::string_view kAndRest = ", rest ";

/// The work of our kernel after the product: the epilogue if the product has none, and relu.
cudaError_t launch_rest(const LinearProblem& problem, bool has_epilogue, const Matrix& y, void* data,
                        const Matrix& dy, const void* dy_data, void* bias, void* workspace,
                        cudaStream_t stream) {
  const DType bias_dtype = problem.product.bias_dtype;
  const Epilogue missing = has_epilogue ? Epilogue::none : problem.product.epilogue;
  if (sums(missing)) return launch_column_sums(dy, dy_data, bias, bias_dtype, workspace, stream);
  if (missing == Epilogue::none && !problem.relu) return cudaSuccess;
  return launch_add_bias(y, data, missing == Epilogue::none ? nullptr : bias, bias_dtype, problem.relu,
                         stream);
}

float time_of(const Gpu& gpu, const Selected& selected, const OpContext& context) {
  const LinearProblem problem = linear_problem(gpu, context);
  const MatrixProduct& whole = problem.product;
  const Matrix y = as_matrix(context.outputs[kProduct]), dy = as_matrix(context.inputs[problem.dy]);
  const DeviceMemory a = scratch_memory(operand_bytes(whole.a)), b = scratch_memory(operand_bytes(whole.b)),
                     d = scratch_memory(operand_bytes(whole.d)),
                     bias = scratch_memory(std::max(y.columns, dy.columns) * 4),
                     kept = scratch_memory(
                         whole.keeps_or_reads() ? operand_bytes(whole.d) + whole.mask_bytes() : 0),
                     workspace = scratch_memory(
                         std::max(selected.algorithm.workspace_bytes, column_sums_workspace(dy)));
  const Matmul matmul(gpu.blas.get(), selected.product, selected.algorithm);
  return milliseconds(gpu.stream.get(), [&] {
    matmul.run(gpu.blas.get(), {a.get(), b.get(), d.get(), d.get(), bias.get(), kept.get(), workspace.get()},
               gpu.stream.get());
    check(launch_rest(problem, selected.product.epilogue == whole.epilogue, y, d.get(), dy,
                      (problem.dy == problem.a ? a : b).get(), bias.get(), workspace.get(), gpu.stream.get()),
          "timing");
  });
}

/// The heuristics' first, for a product too small to time.
std::optional<MatmulAlgorithm> choose_rest(const Gpu& gpu, const LinearProblem& problem, bool has_epilogue) {
  const auto found = matmul_algorithms(gpu.blas.get(), rest_product(problem, has_epilogue), 1);
  return found.empty() ? std::nullopt : std::optional(found[0]);
}

/// The heuristics' first with the epilogue, or without if there is none with it; if they are to be timed,
/// more of both kinds.
std::vector<Selected> candidates_of(const Gpu& gpu, const LinearProblem& problem, bool timed) {
  const MatrixProduct &whole = problem.product, plain = without_epilogue(whole);
  const int most = gpu.times_all() ? kMatmulsTimed : 1;
  std::vector<Selected> candidates;
  for (const auto& algorithm : matmul_algorithms(gpu.blas.get(), whole, most))
    candidates.push_back({whole, algorithm});
  const bool also_plain = candidates.empty() || timed;
  if (also_plain && whole.epilogue != Epilogue::none && whole.activation == Activation::none) {
    for (const auto& algorithm : matmul_algorithms(gpu.blas.get(), plain, most))
      candidates.push_back({plain, algorithm});
  }
  if (problem.rest) {
    std::erase_if(candidates, [&](const Selected& one) {
      return !choose_rest(gpu, problem, one.product.epilogue == whole.epilogue);
    });
  }
  return candidates;
}

/// The first of the candidates or, if they are timed, the fastest. Sums of many rows for few features are
/// timed always: the heuristics do not split them, and with a bias's gradient they are slow on some sizes.
std::optional<Selected> choose(const Gpu& gpu, const OpContext& context) {
  const LinearProblem problem = linear_problem(gpu, context);
  const MatrixProduct& whole = problem.product;
  const bool is_misjudged = sums(whole.epilogue) && whole.parts_of_sum() > 1,
             timed = is_misjudged ? gpu.times_some() : gpu.times_all();
  const std::vector<Selected> candidates = candidates_of(gpu, problem, timed);
  if (candidates.empty()) return std::nullopt;
  if (!timed) return candidates[0];
  const std::string key =
      fmt::format("{}cuBLASLt {}, {}: {}{}", gpu.times_all() ? "" : kTimedAlways, cublasLtGetVersion(),
                  gpu.name, whole.text(), problem.relu ? " relu" : "");
  std::vector<std::string> texts;
  for (const Selected& one : candidates) texts.push_back(one.text());
  return candidates[choose_fastest(gpu, key, texts,
                                   [&](size_t i) { return time_of(gpu, candidates[i], context); })];
}

/// A mask has cuBLASLt's layout, which only another product reads.
void place_mask(const LinearProblem& problem, Choice& choice) {
  const Layout mask = bytes_in_a_row(problem.product.mask_bytes());
  if (problem.forward == nullptr) choice.inputs[LinearBackwardData::kKept] = mask;
  if (problem.forward != nullptr && !problem.drops_mask) choice.outputs[Linear::kKept] = mask;
}

Choice select(const Gpu& gpu, const OpContext& context, const OpenLayouts&) {
  if (!context.has_output(kProduct)) {
    Choice choice = row_major(context, kColumnSums);
    choice.inputs[LinearBackwardWeights::kDy] = rows_layout(context.inputs[LinearBackwardWeights::kDy]);
    choice.workspace_bytes = column_sums_workspace(as_matrix(context.inputs[LinearBackwardWeights::kDy]));
    choice.kernels = kColumnSumsKernels;
    return choice;
  }
  const LinearProblem problem = linear_problem(gpu, context);
  Choice choice = row_major(context, problem.relu ? kThenRelu : kFused);
  place_rows(problem, context, choice);
  if (problem.product.has_mask()) place_mask(problem, choice);
  choice.workspace_bytes = problem.dropped_bytes() + kMostMatmulWorkspace;
  choice.workspace_is_bound = gpu.described();
  choice.tensor_cores = problem.product.on_tensor_cores();
  if (problem.rest) choice.kernels = 2;
  const int64_t twice = 2 * bytes_of(context.outputs[kProduct]);  // inputs and outputs of the next kernel
  if (problem.relu) ++choice.kernels, choice.again_bytes = twice;
  if (gpu.described()) return choice;
  const auto [product, algorithm] = *choose(gpu, context);
  choice.algorithm = algorithm.text;
  choice.workspace_bytes = problem.dropped_bytes() + algorithm.workspace_bytes;
  const MatrixProduct& whole = problem.product;
  if (problem.rest) {
    const MatmulAlgorithm rest = *choose_rest(gpu, problem, product.epilogue == whole.epilogue);
    choice.algorithm += std::string(kAndRest) + rest.text;
    choice.workspace_bytes = std::max(choice.workspace_bytes, problem.dropped_bytes() + rest.workspace_bytes);
  }
  if (product.epilogue == whole.epilogue) return choice;
  choice.implementation = sums(whole.epilogue) ? kAndColumnSums : kThenBias;
  choice.kernels += sums(whole.epilogue) ? kColumnSumsKernels : 1;
  choice.again_bytes = sums(whole.epilogue) ? bytes_of(context.inputs[problem.dy]) : twice;
  if (sums(whole.epilogue)) {
    choice.workspace_bytes = std::max(
        choice.workspace_bytes, column_sums_workspace(as_matrix(context.inputs[LinearBackwardWeights::kDy])));
  }
  return choice;
}

std::optional<std::string> why_no_activation(const Gpu& gpu, const MatrixProduct& product) {
  if (product.activation == Activation::none) return std::nullopt;
  const bool is_slow = gpu.compute_capability < kLeastForGelu || gpu.compute_capability > kMostForGelu;
  if (!product.has_mask() && is_slow) return "a kernel of its own is faster for gelu_tanh here";
  if (product.d.dtype == DType::f32)
    return product.has_mask()
               ? "masks of relu join products of f16 and bf16 only"
               : "gelu_tanh joins products of f16 and bf16 only, whose rounding hides cuBLASLt's";
  if (product.keeps_or_reads() && product.d.rows % kKeptMultiple != 0)
    return fmt::format("cuBLASLt keeps multiples of {} features for a gelu or relu", kKeptMultiple);
  return std::nullopt;
}

std::optional<std::string> why_not_product(const Gpu& gpu, const OpContext& context) {
  if (auto reason = why_no_factors(context)) return reason;
  if (!context.has_output(kProduct)) return std::nullopt;
  const MatrixProduct product = linear_problem(gpu, context).product;
  if (auto reason = why_no_activation(gpu, product)) return reason;
  if (gpu.described() || choose(gpu, context)) return std::nullopt;
  return no_algorithm(product, gpu.name);
}

class LinearKernel {
 public:
  LinearKernel(const Gpu& gpu, const OpContext& context, const Choice& choice, Slots slots)
      : problem_(linear_problem(gpu, context)),
        has_epilogue_(choice.implementation == kFused || choice.implementation == kThenRelu),
        y_(as_matrix(context.outputs[kProduct])),
        dy_(as_matrix(context.inputs[problem_.dy])),
        matmul_(gpu.blas.get(), has_epilogue_ ? problem_.product : without_epilogue(problem_.product),
                algorithm_of(choice, problem_, false)),
        slots_(std::move(slots)),
        blas_(gpu.blas.get()),
        stream_(gpu.stream.get()) {
    if (problem_.rest)
      rest_.emplace(gpu.blas.get(), rest_product(problem_, has_epilogue_),
                    algorithm_of(choice, problem_, true));
  }

  cudaError_t operator()() const {
    void *bias = optional_at<void>(problem_.bias(slots_)), *kept = optional_at<void>(problem_.kept(slots_));
    auto* workspace = static_cast<char*>(optional_at<void>(slots_.workspace));
    if (workspace != nullptr) workspace += problem_.dropped_bytes();
    void *a = *slots_.inputs[problem_.a], *b = *slots_.inputs[problem_.b], *d = *slots_.outputs[kProduct];
    const auto added_to = [&](const MatrixProduct& product) {
      return product.beta != 0 ? *slots_.inputs[problem_.added] : nullptr;
    };
    if (problem_.rest) {
      const ProductRest& rest = *problem_.rest;
      const MatrixProduct& product = rest.product;
      const auto behind = [](void* from, int64_t elements, DType dtype) {
        return from == nullptr ? nullptr : static_cast<char*>(from) + elements * bytes_per_element(dtype);
      };
      rest_->run(blas_,
                 {.a = behind(a, rest.a, product.a.dtype),
                  .b = behind(b, rest.b, product.b.dtype),
                  .d = behind(d, rest.d, product.d.dtype),
                  .added = behind(added_to(product), rest.d, product.d.dtype),
                  .bias = behind(bias, rest.d, product.bias_dtype),
                  .workspace = workspace},
                 stream_);
    }
    const bool adds_rest = problem_.rest && problem_.forward == nullptr;
    const void* added = adds_rest ? d : added_to(problem_.product);
    matmul_.run(blas_, {a, b, d, added, bias, kept, workspace}, stream_);
    const void* dy = *slots_.inputs[problem_.dy];
    return launch_rest(problem_, has_epilogue_, y_, d, dy_, dy, bias, workspace, stream_);
  }

 private:
  static MatmulAlgorithm algorithm_of(const Choice& choice, const LinearProblem& problem, bool of_rest) {
    const size_t end = choice.algorithm.find(kAndRest);
    return {of_rest ? choice.algorithm.substr(end + kAndRest.size()) : choice.algorithm.substr(0, end),
            choice.workspace_bytes - problem.dropped_bytes()};
  }

  LinearProblem problem_;
  bool has_epilogue_;
  Matrix y_, dy_;
  Matmul matmul_;
  std::optional<Matmul> rest_;
  Slots slots_;
  cublasLtHandle_t blas_;
  cudaStream_t stream_;
};

std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                const Slots& slots) {
  if (choice.implementation == kColumnSums) {
    return kernel(context,
                  [=, dy = as_matrix(context.inputs[LinearBackwardWeights::kDy]),
                   dtype = context.outputs[LinearBackwardWeights::kDbias].dtype, stream = gpu.stream.get()] {
                    return launch_column_sums(dy, *slots.inputs[LinearBackwardWeights::kDy],
                                              *slots.outputs[LinearBackwardWeights::kDbias], dtype,
                                              *slots.workspace, stream);
                  });
  }
  return kernel(context, LinearKernel(gpu, context, choice, slots));
}

}  // namespace

void add_linear(Handlers& handlers) {
  const Handler handler{.select = select, .compile = compile, .why_not = why_not_product};
  handlers[typeid(Linear)] = handlers[typeid(LinearBackwardData)] = handlers[typeid(LinearBackwardWeights)] =
      handler;
}

}  // namespace trainer::cuda
