// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear_problem.h"

#include <algorithm>

#include "core/engine/arena.h"

// x (N, K), w (O, K), y (N, O), N counting all rows, of (N, T, K) too; all row-major (y perhaps with gaps),
// so that cuBLASLt sees their transposes column by column:
//   yT (O, N) = w xT           with the bias in the epilogue
//   dxT (K, N) = wT dyT
//   dwT (K, O) = xT dy         the bias's gradient being the sum of dy over N
// Each may be added to what is so far, with a beta.
// Weights that are stored transposed, (K, O), are wT column by column, and so is their gradient:
//   dw (O, K) = dyT x

namespace trainer::cuda {
namespace {

/// The matrix (N, K) or (O, K), which is its transpose column by column.
MatrixProduct::Operand operand(const TensorSpec& spec, bool transposed = false) {
  const Shape rows = as_rows(spec.shape);
  return {.rows = rows[1],
          .columns = rows[0],
          .dtype = spec.dtype,
          .transposed = transposed,
          .alignment = kArenaAlignment};
}

/// y or dy, in rows_layout.
MatrixProduct::Operand rows_operand(const TensorSpec& spec, bool transposed = false) {
  MatrixProduct::Operand made = operand(spec, transposed);
  if (const int64_t step = row_step(spec); step != made.rows) made.step = step;
  return made;
}

void describe_forward(const Linear& op, const OpContext& context, LinearProblem& problem) {
  MatrixProduct& product = problem.product;
  problem.forward = &op;
  problem.a = Linear::kWeight;
  problem.b = Linear::kX;
  product.d = rows_operand(context.outputs[Linear::kY]);
  product.a = operand(context.inputs[Linear::kWeight], !op.transposed);
  product.b = operand(context.inputs[Linear::kX]);
  product.b.alignment = sample_alignment(context.inputs[Linear::kX]);
  if (context.has_input(Linear::kBias)) {
    product.epilogue = Epilogue::bias;
    product.bias_dtype = context.inputs[Linear::kBias].dtype;
  }
  problem.added = op.kAdded;
  product.beta = context.has_input(op.kAdded) ? 1 : 0;
  switch (op.function) {
    case LinearFunction::none:
      break;
    case LinearFunction::relu:
      problem.relu = true;
      break;
    case LinearFunction::relu_with_mask:
      product.activation = Activation::relu_kept;
      problem.drops_mask = !context.has_output(Linear::kKept);
      break;
    case LinearFunction::gelu_tanh:
      product.activation = context.has_output(Linear::kKept) ? Activation::gelu_kept : Activation::gelu;
  }
}

void describe_backward_data(const LinearBackwardData& op, const OpContext& context, LinearProblem& problem) {
  MatrixProduct& product = problem.product;
  problem.a = LinearBackwardData::kWeight;
  problem.b = LinearBackwardData::kDy;
  product.a = operand(context.inputs[LinearBackwardData::kWeight], op.transposed);
  product.b = rows_operand(context.inputs[LinearBackwardData::kDy]);
  problem.added = op.kAdded;
  product.beta = context.has_input(op.kAdded) ? static_cast<float>(op.factor) : 0;
  if (context.has_input(op.kKept))
    product.activation = op.gelu_tanh ? Activation::gelu_gradient : Activation::relu_gradient;
}

void describe_backward_weights(const LinearBackwardWeights& op, const OpContext& context,
                               LinearProblem& problem) {
  MatrixProduct& product = problem.product;
  problem.a = op.transposed ? LinearBackwardWeights::kDy : LinearBackwardWeights::kX;
  problem.b = op.transposed ? LinearBackwardWeights::kX : LinearBackwardWeights::kDy;
  const auto factor = [&](size_t input, bool transposed) {
    return (input == LinearBackwardWeights::kDy ? rows_operand : operand)(context.inputs[input], transposed);
  };
  product.a = factor(problem.a, false);
  product.b = factor(problem.b, true);
  (op.transposed ? product.b : product.a).alignment =
      sample_alignment(context.inputs[LinearBackwardWeights::kX]);
  problem.added = op.kAdded;
  product.beta = context.has_input(op.kAdded) ? 1 : 0;
  if (!context.has_output(LinearBackwardWeights::kDbias)) return;
  product.epilogue = op.transposed ? Epilogue::sum_a : Epilogue::sum_b;
  product.bias_dtype = context.outputs[LinearBackwardWeights::kDbias].dtype;
}

/// Takes the rest from a product on tensor cores whose y or dy has gaps between rows, so that only its width
/// is odd. Weights that are stored transposed have rows of that width, which begin anywhere.
void take_rest(LinearProblem& problem) {
  constexpr int64_t kMultiple = 8;
  constexpr uint32_t kAligned = 16;  // of what begins at a multiple of eight elements
  MatrixProduct& product = problem.product;
  if (!product.on_tensor_cores() || product.activation != Activation::none) return;
  const bool of_rows = problem.forward != nullptr && product.d.step != 0 && product.a.transposed,
             of_terms = problem.forward == nullptr && product.b.step != 0 && !product.b.transposed &&
                        !product.a.transposed;
  if (!of_rows && !of_terms) return;
  int64_t& width = of_rows ? product.d.rows : product.b.rows;
  const int64_t rest = width % kMultiple;
  if (rest == 0) return;
  problem.rest = ProductRest{.product = product};
  MatrixProduct& last = problem.rest->product;
  width -= rest, product.a.columns -= rest;
  last.a.columns = rest;
  problem.rest->a = product.a.columns * product.a.rows;
  for (MatrixProduct::Operand* operand : {&last.a, &last.b, &last.d})
    operand->alignment = std::min(operand->alignment, kAligned);
  if (of_rows) {
    last.d.rows = rest, problem.rest->d = width;
  } else {
    last.b.rows = rest, problem.rest->b = width;
    product.beta = 1;
  }
}

}  // namespace

void* const* LinearProblem::kept(const Slots& slots) const {
  if (!product.keeps_or_reads()) return nullptr;
  if (drops_mask) return slots.workspace;
  return forward != nullptr ? slots.outputs[Linear::kKept] : slots.inputs[LinearBackwardData::kKept];
}

void* const* LinearProblem::bias(const Slots& slots) const {
  return forward != nullptr ? slots.inputs[Linear::kBias] : slots.output(LinearBackwardWeights::kDbias);
}

int64_t LinearProblem::dropped_bytes() const {
  constexpr int64_t k = kWorkspaceAlignment;
  return drops_mask ? (product.mask_bytes() + k - 1) / k * k : 0;
}

LinearProblem linear_problem(const Gpu& gpu, const OpContext& context) {
  LinearProblem problem;
  MatrixProduct& product = problem.product;
  product.d = operand(context.outputs[kProduct]);
  if (const auto* forward = dynamic_cast<const Linear*>(&context.op)) {
    describe_forward(*forward, context, problem);
  } else if (const auto* data = dynamic_cast<const LinearBackwardData*>(&context.op)) {
    describe_backward_data(*data, context, problem);
  } else {
    describe_backward_weights(static_cast<const LinearBackwardWeights&>(context.op), context, problem);
  }
  product.tf32 = gpu.tf32 && product.a.dtype == DType::f32;
  take_rest(problem);
  return problem;
}

}  // namespace trainer::cuda
