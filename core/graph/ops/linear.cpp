// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/linear.h"

#include <fmt/format.h>

#include "core/graph/ops/quantized_product.h"
#include "core/graph/ops/unary.h"

namespace trainer {
namespace {

/// One multiply-add for each element of y and each feature of x.
double matmul_flops(const Shape& y, const Shape& x) {
  return 2.0 * static_cast<double>(numel(y)) * static_cast<double>(x.back());
}

/// The same rows with other features.
Shape with_features(Shape shape, int64_t features) {
  shape.back() = features;
  return shape;
}

/// How weights of O outputs and K features are stored.
Shape weight_shape(int64_t outputs, int64_t features, bool transposed) {
  return transposed ? Shape{features, outputs} : Shape{outputs, features};
}

/// The operand that a product adds to its sums, if given.
void expect_added(std::span<const TensorSpec> inputs, size_t place, const TensorSpec& sums) {
  expect(!is_given(inputs[place]) || inputs[place] == sums,
         "the addend has another shape or type than the product");
}

}  // namespace

Shape as_rows(const Shape& features) {
  return {numel(features) / features.back(), features.back()};
}

void Linear::describe(AttributeVisitor& visit) const {
  visit("relu", function == LinearFunction::relu || function == LinearFunction::relu_with_mask);
  visit("transposed", transposed);
  visit("gelu_tanh", function == LinearFunction::gelu_tanh);
  visit("mask", function == LinearFunction::relu_with_mask);
}

std::vector<TensorSpec> Linear::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_one_type(inputs, {kX, kWeight, kBias});
  const Shape& x = inputs[kX].shape;
  const Shape& w = inputs[kWeight].shape;
  expect(x.size() == 2 || x.size() == 3,
         "expected features (N, K) or (N, T, K), got shape " + to_string(x) + "; put `flatten` before it");
  expect(w.size() == 2 && w[transposed ? 0 : 1] == x.back(),
         fmt::format("weights of shape {} met {} features", to_string(w), x.back()));
  const TensorSpec y{.shape = with_features(x, w[transposed ? 1 : 0]), .dtype = inputs[kX].dtype};
  expect_added(inputs, kAdded, y);
  std::vector<TensorSpec> outputs{y};
  if (function == LinearFunction::gelu_tanh) outputs.push_back(y);
  if (function == LinearFunction::relu_with_mask) outputs.push_back({.shape = y.shape, .dtype = DType::u8});
  return outputs;
}

std::vector<TensorId> Linear::gradient(const Backward& backward) const {
  if (backward.x(kAdded) != kNone) throw std::logic_error("a product with an addend has no gradient");
  TensorId dy = backward.dy[kY];
  if (function == LinearFunction::relu)
    dy = backward.build.emit<UnaryBackward>({dy, backward.y(kY)}, elementwise::Function(elementwise::Relu{}));
  if (function == LinearFunction::gelu_tanh)
    dy = backward.build.emit<UnaryBackward>({dy, backward.y(kKept)},
                                            elementwise::Function(elementwise::GeluTanh{}));
  std::vector<TensorId> gradients(kInputs, kNone);
  if (backward.wanted[kX]) {
    gradients[kX] =
        backward.build.emit<LinearBackwardData>({dy, backward.x(kWeight)}, backward.shape(kX), transposed);
  }
  const bool bias = backward.wanted[kBias];
  if (!backward.wanted[kWeight] && !bias) return gradients;
  const std::vector<TensorId> dw = backward.build.emit_all(
      std::make_shared<LinearBackwardWeights>(bias, transposed), {backward.x(kX), dy});
  gradients[kWeight] = dw[LinearBackwardWeights::kDweight];
  if (bias) gradients[kBias] = dw[LinearBackwardWeights::kDbias];
  return gradients;
}

std::optional<QuantizedForm> Linear::quantized_form(std::span<const TensorSpec> inputs) const {
  const bool is_relu = function == LinearFunction::relu;
  if (inputs[kX].shape.back() > kMostSummedInBytes) return std::nullopt;
  if (transposed || (function != LinearFunction::none && !is_relu)) return std::nullopt;
  return QuantizedForm{
      .x = kX,
      .weight = kWeight,
      .bias = kBias,
      .addend = kAdded,
      .relu = is_relu,
      .make = [](const QuantizedEnd& end) { return std::make_shared<QuantizedLinear>(end); }};
}

std::vector<ChannelLink> Linear::channel_links(std::span<const TensorSpec> inputs,
                                               std::span<const TensorSpec> outputs) const {
  const size_t of_x = inputs[kX].shape.size() - 1, of_y = outputs[kY].shape.size() - 1;
  const size_t made = transposed ? 1 : 0, read = transposed ? 0 : 1;
  return {{.channels = inputs[kX].shape.back(),
           .places = {channel_in(kX, of_x), channel_in(kWeight, read, ChannelUse::reads)}},
          {.channels = outputs[kY].shape.back(),
           .places = {channel_out(kY, of_y), channel_in(kWeight, made, ChannelUse::makes),
                      channel_in(kBias, 0)}}};
}

double Linear::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  return matmul_flops(outputs[kY].shape, inputs[kX].shape);
}

void LinearBackwardData::describe(AttributeVisitor& visit) const {
  visit("x_shape", x_shape, {.hidden = true});
  visit("transposed", transposed);
  visit("gelu_tanh", gelu_tanh);
  visit("factor", factor, {.hidden = factor == 1});
}

std::vector<TensorSpec> LinearBackwardData::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_one_type(inputs, {kDy, kWeight});
  const Shape &dy = inputs[kDy].shape, &w = inputs[kWeight].shape;
  expect(w == weight_shape(dy.back(), x_shape.back(), transposed) && dy == with_features(x_shape, dy.back()),
         fmt::format("weights of shape {} met {} and {}", to_string(w), to_string(dy), to_string(x_shape)));
  const TensorSpec dx{.shape = x_shape, .dtype = inputs[kDy].dtype};
  const bool is_kept = is_given(inputs[kKept]);
  if (is_kept || gelu_tanh) {
    const DType kept = gelu_tanh ? dx.dtype : DType::u8;
    expect(is_kept && inputs[kKept] == TensorSpec{x_shape, kept},
           "the function's kept input must have the shape of the features");
  }
  expect_added(inputs, kAdded, dx);
  return {dx};
}

double LinearBackwardData::flops(std::span<const TensorSpec> inputs,
                                 std::span<const TensorSpec> outputs) const {
  return matmul_flops(inputs[kDy].shape, outputs[kDx].shape);
}

void LinearBackwardWeights::describe(AttributeVisitor& visit) const {
  visit("bias", has_bias, {.hidden = true});
  visit("transposed", transposed);
}

std::vector<TensorSpec> LinearBackwardWeights::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  const Shape &x = inputs[kX].shape, &dy = inputs[kDy].shape;
  expect_one_type(inputs, {kX, kDy});
  expect(dy == with_features(x, dy.back()),
         fmt::format("features {} met gradients {}", to_string(x), to_string(dy)));
  std::vector<TensorSpec> outputs{
      {.shape = weight_shape(dy.back(), x.back(), transposed), .dtype = DType::f32}};
  if (is_given(inputs[kAdded]))
    expect(inputs[kAdded] == outputs[kDweight], "the addend has another shape or type than the gradient");
  if (has_bias) outputs.push_back({.shape = {dy.back()}, .dtype = DType::f32});
  return outputs;
}

double LinearBackwardWeights::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return matmul_flops(inputs[kDy].shape, inputs[kX].shape);
}

}  // namespace trainer
