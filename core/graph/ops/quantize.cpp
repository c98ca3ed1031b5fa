// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/quantize.h"

#include <fmt/format.h>

#include <cmath>

namespace trainer {
namespace {

void describe_quantization(AttributeVisitor& visit, const Quantization& q) {
  visit("scale", q.scale);
  visit("zero_point", q.zero_point);
}

void expect_valid(const Quantization& q) {
  constexpr int64_t kGreatest = 255;
  expect(std::isfinite(q.scale) && q.scale > 0, fmt::format("a scale is above 0, got {}", q.scale));
  expect(q.zero_point >= 0 && q.zero_point <= kGreatest,
         fmt::format("the zero point {} does not fit into 8 bits", q.zero_point));
}

/// A number for each output of these weights.
TensorSpec of_outputs(const TensorSpec& weights) {
  return {.shape = {weights.shape[0]}, .dtype = DType::f32};
}

}  // namespace

void Quantize::describe(AttributeVisitor& visit) const {
  describe_quantization(visit, quantization);
}

std::vector<TensorSpec> Quantize::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_type(inputs, {kX}, DType::f32);
  expect_valid(quantization);
  return {{.shape = inputs[kX].shape, .dtype = DType::u8}};
}

void Dequantize::describe(AttributeVisitor& visit) const {
  describe_quantization(visit, quantization);
}

std::vector<TensorSpec> Dequantize::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_type(inputs, {kX}, DType::u8);
  expect_valid(quantization);
  return {{.shape = inputs[kX].shape, .dtype = DType::f32}};
}

void QuantizeWeights::describe(AttributeVisitor& visit) const {
  visit("bits", levels.bits);
  visit("per_tensor", levels.per_tensor);
  visit("power_of_two", levels.power_of_two);
}

std::vector<TensorSpec> QuantizeWeights::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_type(inputs, {kWeight}, DType::f32);
  expect(levels.bits >= kLeastBits && levels.bits <= kMostBits,
         fmt::format("weights have {} to {} bits, got {}", kLeastBits, kMostBits, levels.bits));
  return {{.shape = inputs[kWeight].shape, .dtype = DType::i8}, of_outputs(inputs[kWeight])};
}

void ProductScales::describe(AttributeVisitor& visit) const {
  visit("x_scale", x.scale);
  visit("x_zero_point", x.zero_point);
  visit("y_scale", y_scale);
  visit("shift", shift, {.hidden = shift == 0});
}

std::vector<TensorSpec> ProductScales::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_type(inputs, {kWeight}, DType::i8);
  expect_valid(x);
  const TensorSpec made = of_outputs(inputs[kWeight]);
  expect(inputs[kScale] == made, "weights have a scale for each output");
  expect(!is_given(inputs[kBias]) || inputs[kBias] == made, "the bias has a number for each output");
  return {made, made};
}

void ObserveRange::describe(AttributeVisitor& visit) const {
  visit("low", low);
  visit("high", high);
}

std::vector<TensorSpec> ObserveRange::infer(std::span<const TensorSpec> inputs) const {
  constexpr int64_t kEnds = 2;
  expect_count(inputs, kInputs);
  expect_type(inputs, {kX}, DType::f32);
  expect(low <= high, fmt::format("a range of {} to {} is empty", low, high));
  return {{.shape = {kEnds}, .dtype = DType::f32}, {.shape = {kBins}, .dtype = DType::i32}};
}

}  // namespace trainer
