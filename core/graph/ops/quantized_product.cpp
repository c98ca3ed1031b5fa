// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/quantized_product.h"

#include <fmt/format.h>

#include "core/graph/ops/linear.h"

namespace trainer {
namespace {

using Operand = QuantizedProduct;

/// y of this shape. Throws unless all operands have the types of a product in 8 bits.
std::vector<TensorSpec> quantized_result(std::span<const TensorSpec> inputs, const QuantizedEnd& end,
                                         Shape shape) {
  expect(end.y == DType::u8 || end.y == DType::f32, "the result of a product in 8 bits is u8 or f32");
  expect_type(inputs, {Operand::kX}, DType::u8);
  expect_type(inputs, {Operand::kWeight}, DType::i8);
  const TensorSpec of_outputs{.shape = {inputs[Operand::kWeight].shape[0]}, .dtype = DType::f32};
  for (const size_t place : {Operand::kMultiplier, Operand::kBias})
    expect(inputs[place] == of_outputs, fmt::format("expected a number for each of {} outputs, got {}",
                                                    of_outputs.shape[0], to_string(inputs[place].shape)));
  const TensorSpec y{.shape = std::move(shape), .dtype = end.y};
  expect(!is_given(inputs[Operand::kResidual]) || inputs[Operand::kResidual] == y,
         "the residual has another shape or type than the result");
  return {y};
}

/// The operands of the product in f32, for its rules about shapes.
std::vector<TensorSpec> in_f32(std::span<const TensorSpec> inputs, size_t count, size_t x, size_t weight) {
  std::vector<TensorSpec> wide(count);
  wide[x] = {.shape = inputs[Operand::kX].shape, .dtype = DType::f32};
  wide[weight] = {.shape = inputs[Operand::kWeight].shape, .dtype = DType::f32};
  return wide;
}

}  // namespace

void QuantizedConv2d::describe(AttributeVisitor& visit) const {
  geometry.describe(visit);
  end.describe(visit);
}

std::vector<TensorSpec> QuantizedConv2d::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  const auto wide = in_f32(inputs, Conv2d::kInputs, Conv2d::kX, Conv2d::kWeight);
  return quantized_result(inputs, end, Conv2d(geometry).infer(wide)[Conv2d::kY].shape);
}

double QuantizedConv2d::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  const auto wide = in_f32(inputs, Conv2d::kInputs, Conv2d::kX, Conv2d::kWeight);
  return Conv2d(geometry).flops(wide, outputs);
}

void QuantizedLinear::describe(AttributeVisitor& visit) const {
  end.describe(visit);
}

std::vector<TensorSpec> QuantizedLinear::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  const auto wide = in_f32(inputs, Linear::kInputs, Linear::kX, Linear::kWeight);
  return quantized_result(inputs, end, Linear().infer(wide)[Linear::kY].shape);
}

double QuantizedLinear::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  const auto wide = in_f32(inputs, Linear::kInputs, Linear::kX, Linear::kWeight);
  return Linear().flops(wide, outputs);
}

}  // namespace trainer
