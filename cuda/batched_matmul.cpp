// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>

#include "core/graph/ops/matmul.h"
#include "cuda/known_fastest.h"
#include "cuda/matmul.h"
#include "cuda/table.h"
#include "cuda/timing.h"

// y = op(a) op(b) of row-major matrices, which cuBLASLt sees as their transposes: yT = op(b)T op(a)T, so that
// its first factor is b.

namespace trainer::cuda {
namespace {

/// A row-major matrix, or one for each sample, column by column.
MatrixProduct::Operand operand(const TensorSpec& spec, bool is_transposed) {
  const Shape& shape = spec.shape;
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  return {.rows = columns,
          .columns = rows,
          .dtype = spec.dtype,
          .transposed = is_transposed,
          .alignment = sample_alignment(spec),
          .stride = rows * columns};
}

MatrixProduct product_of(const Gpu& gpu, const OpContext& context) {
  const auto& op = static_cast<const MatMul&>(context.op);
  const Shape& y = context.outputs[MatMul::kY].shape;
  return {.a = operand(context.inputs[MatMul::kB], op.transpose_b),
          .b = operand(context.inputs[MatMul::kA], op.transpose_a),
          .d = operand(context.outputs[MatMul::kY], false),
          .batch = y.size() == 3 ? y[0] : 1,
          .tf32 = gpu.tf32 && context.inputs[MatMul::kA].dtype == DType::f32};
}

float time_of(const Gpu& gpu, const MatrixProduct& product, const MatmulAlgorithm& algorithm,
              const OpContext& context) {
  const DeviceMemory a = scratch_memory(bytes_of(context.inputs[MatMul::kB])),
                     b = scratch_memory(bytes_of(context.inputs[MatMul::kA])),
                     d = scratch_memory(bytes_of(context.outputs[MatMul::kY])),
                     workspace = scratch_memory(algorithm.workspace_bytes);
  const Matmul matmul(gpu.blas.get(), product, algorithm);
  return milliseconds(gpu.stream.get(), [&] {
    matmul.run(gpu.blas.get(), {.a = a.get(), .b = b.get(), .d = d.get(), .workspace = workspace.get()},
               gpu.stream.get());
  });
}

/// The heuristics' first or, with a tuning, the fastest of the first few.
std::optional<MatmulAlgorithm> choose(const Gpu& gpu, const OpContext& context) {
  const MatrixProduct product = product_of(gpu, context);
  const std::vector<MatmulAlgorithm> found =
      matmul_algorithms(gpu.blas.get(), product, gpu.times_all() ? kMatmulsTimed : 1);
  if (found.empty()) return std::nullopt;
  if (!gpu.times_all()) return found[0];
  std::vector<std::string> texts;
  for (const MatmulAlgorithm& algorithm : found) texts.push_back(algorithm.text);
  const std::string key = fmt::format("cuBLASLt {}, {}: {}", cublasLtGetVersion(), gpu.name, product.text());
  return found[choose_fastest(gpu, key, texts,
                              [&](size_t i) { return time_of(gpu, product, found[i], context); })];
}

std::optional<std::string> why_not_multiplied(const Gpu& gpu, const OpContext& context) {
  if (auto reason = why_no_factors(context)) return reason;
  if (gpu.described() || choose(gpu, context)) return std::nullopt;
  return no_algorithm(product_of(gpu, context), gpu.name);
}

Choice select(const Gpu& gpu, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "cublaslt");
  choice.workspace_bytes = kMostMatmulWorkspace;
  choice.workspace_is_bound = gpu.described();
  choice.tensor_cores = product_of(gpu, context).on_tensor_cores();
  if (gpu.described()) return choice;
  const MatmulAlgorithm algorithm = *choose(gpu, context);
  choice.algorithm = algorithm.text;
  choice.workspace_bytes = algorithm.workspace_bytes;
  return choice;
}

std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                const Slots& slots) {
  const auto matmul = std::make_shared<Matmul>(gpu.blas.get(), product_of(gpu, context),
                                               MatmulAlgorithm{choice.algorithm, choice.workspace_bytes});
  return kernel(context, [=, blas = gpu.blas.get(), stream = gpu.stream.get()] {
    matmul->run(blas,
                {.a = *slots.inputs[MatMul::kB],
                 .b = *slots.inputs[MatMul::kA],
                 .d = *slots.outputs[MatMul::kY],
                 .workspace = optional_at<void>(slots.workspace)},
                stream);
    return cudaSuccess;
  });
}

}  // namespace

void add_matmul(Handlers& handlers) {
  handlers[typeid(MatMul)] = {.select = select, .compile = compile, .why_not = why_not_multiplied};
}

}  // namespace trainer::cuda
