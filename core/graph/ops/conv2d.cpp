// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/conv2d.h"

#include <fmt/format.h>

#include <stdexcept>

#include "core/graph/ops/quantized_product.h"
#include "core/graph/ops/unary.h"

namespace trainer {
namespace {

/// Multiply-adds of a convolution: every output element sums over its group's channels and the kernel.
double convolution_flops(const Shape& y, const Shape& w) {
  return 2.0 * static_cast<double>(numel(y)) * static_cast<double>(w[1] * w[2] * w[3]);
}

/// Where a convolution or its transpose has channels.
struct ConvolutionPlaces {
  ChannelPlace x, read, y, made;
  std::optional<ChannelPlace> bias = {};
};

/// x (N, C, ...), y (N, O, ...), and w, whose first dimension has all channels of one of them.
std::vector<ChannelLink> convolution_links(int64_t groups, const Shape& x, const Shape& w, const Shape& y,
                                           ConvolutionPlaces at) {
  const int64_t of_x = x[1] / groups, of_y = y[1] / groups;
  std::vector<ChannelLink> links = {{.channels = of_x, .places = {at.x, at.read}},
                                    {.channels = of_y, .places = {at.y, at.made}}};
  if (groups > 1 && of_x == 1) {
    at.made.dimension = 0;
    at.made.each = w[0] / groups;
    at.y.each = of_y;
    if (at.bias) at.bias->each = of_y;
    links = {{.channels = groups, .places = {at.x, at.y, at.made}}};
  }
  if (at.bias) links.back().places.push_back(*at.bias);
  return links;
}

}  // namespace

void Conv2dGeometry::describe(AttributeVisitor& visit) const {
  visit("kernel", kernel);
  visit("stride", stride);
  visit("padding", padding);
  visit("dilation", dilation, {.hidden = dilation == Size2d{1, 1}});
  visit("groups", groups, {.hidden = groups == 1});
}

Size2d Conv2dGeometry::output(Size2d input) const {
  Size2d out{};
  for (size_t d = 0; d < 2; ++d) {
    const int64_t span = input[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1;
    out[d] = span < 0 ? 0 : span / stride[d] + 1;
  }
  return out;
}

void Conv2d::describe(AttributeVisitor& visit) const {
  geometry.describe(visit);
  visit("relu", relu);
  visit("moments", moments);
}

std::vector<TensorSpec> Conv2d::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_one_type(inputs, {kX, kWeight, kBias});
  const Shape& x = inputs[kX].shape;
  const Shape& w = inputs[kWeight].shape;
  expect(x.size() == 4, "expected images (N, C, H, W), got " + to_string(x));
  expect(x[1] % geometry.groups == 0 && w[0] % geometry.groups == 0,
         fmt::format("{} groups do not divide {} input and {} output channels", geometry.groups, x[1], w[0]));
  expect(w[1] == x[1] / geometry.groups,
         fmt::format("weights for {} channels met {}", w[1] * geometry.groups, x[1]));
  const Size2d out = geometry.output({x[2], x[3]});
  expect(out[0] > 0 && out[1] > 0,
         fmt::format("a {}x{} kernel does not fit into a {}x{} image with padding {}x{}", geometry.kernel[0],
                     geometry.kernel[1], x[2], x[3], geometry.padding[0], geometry.padding[1]));
  std::vector<TensorSpec> outputs{{.shape = {x[0], w[0], out[0], out[1]}, .dtype = inputs[kX].dtype}};
  const TensorSpec sums{.shape = {w[0]}, .dtype = DType::f32};
  if (moments) outputs.insert(outputs.end(), 2, sums);
  expect(!is_given(inputs[kResidual]) || inputs[kResidual] == outputs[kY],
         "the residual has another shape or type than the result");
  for (const TensorSpec& zeros : {inputs[kZeroSums], inputs[kZeroSquares]}) {
    expect(!is_given(zeros) || (moments && zeros == sums),
           "expected a zero for each sum, got " + to_string(zeros.shape));
  }
  return outputs;
}

std::vector<TensorId> Conv2d::gradient(const Backward& backward) const {
  if (moments) throw std::logic_error("a convolution gets its moments after differentiation");
  if (backward.x(kResidual) != kNone) throw std::logic_error("a convolution with a residual has no gradient");
  TensorId dy = backward.dy[kY];
  if (relu)
    dy = backward.build.emit<UnaryBackward>({dy, backward.y(kY)}, elementwise::Function(elementwise::Relu{}));
  std::vector<TensorId> gradients(kInputs, kNone);
  if (backward.wanted[kX]) {
    gradients[kX] =
        backward.build.emit<Conv2dBackwardData>({dy, backward.x(kWeight)}, geometry, backward.shape(kX));
  }
  const bool bias = backward.wanted[kBias];
  if (!backward.wanted[kWeight] && !bias) return gradients;
  const auto op = std::make_shared<Conv2dBackwardWeights>(geometry, backward.shape(kWeight), bias);
  const std::vector<TensorId> dw = backward.build.emit_all(op, {backward.x(kX), dy});
  gradients[kWeight] = dw[Conv2dBackwardWeights::kDweight];
  if (bias) gradients[kBias] = dw[Conv2dBackwardWeights::kDbias];
  return gradients;
}

std::optional<QuantizedForm> Conv2d::quantized_form(std::span<const TensorSpec> inputs) const {
  const Shape& w = inputs[kWeight].shape;
  if (moments || numel(w) / w[0] > kMostSummedInBytes) return std::nullopt;
  return QuantizedForm{
      .x = kX,
      .weight = kWeight,
      .bias = kBias,
      .addend = kResidual,
      .relu = relu,
      .pads = geometry.padding != Size2d{0, 0},
      .make = [g = geometry](const QuantizedEnd& end) { return std::make_shared<QuantizedConv2d>(g, end); }};
}

std::vector<ChannelLink> Conv2d::channel_links(std::span<const TensorSpec> inputs,
                                               std::span<const TensorSpec> outputs) const {
  return convolution_links(geometry.groups, inputs[kX].shape, inputs[kWeight].shape, outputs[kY].shape,
                           {.x = channel_in(kX, 1),
                            .read = channel_in(kWeight, 1, ChannelUse::reads),
                            .y = channel_out(kY, 1),
                            .made = channel_in(kWeight, 0, ChannelUse::makes),
                            .bias = channel_in(kBias, 0)});
}

double Conv2d::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  return convolution_flops(outputs[kY].shape, inputs[kWeight].shape);
}

void Conv2dBackwardData::describe(AttributeVisitor& visit) const {
  geometry.describe(visit);
  visit("x_shape", x_shape, {.hidden = true});
}

std::vector<TensorSpec> Conv2dBackwardData::infer(std::span<const TensorSpec> inputs) const {
  expect_one_type(inputs, {kDy, kWeight});
  const Shape &dy = inputs[kDy].shape, &w = inputs[kWeight].shape;
  expect(dy.size() == 4 && dy[1] == w[0] && x_shape[1] == w[1] * geometry.groups,
         fmt::format("weights of shape {} met {} and {}", to_string(w), to_string(dy), to_string(x_shape)));
  expect(geometry.output({x_shape[2], x_shape[3]}) == Size2d{dy[2], dy[3]},
         fmt::format("{} does not lead from {} to {}", attributes_text(*this), to_string(x_shape),
                     to_string(dy)));
  return {{.shape = x_shape, .dtype = inputs[kDy].dtype}};
}

/// Linear in dy and in w, so that its gradients are the convolution's other two operations.
std::vector<TensorId> Conv2dBackwardData::gradient(const Backward& backward) const {
  const TensorId from = backward.dy[kDx];
  std::vector<TensorId> gradients(kInputs, kNone);
  if (backward.wanted[kDy])
    gradients[kDy] = backward.build.emit<Conv2d>({from, backward.x(kWeight), kNone}, geometry);
  if (backward.wanted[kWeight]) {
    gradients[kWeight] = backward.build.emit<Conv2dBackwardWeights>({from, backward.x(kDy)}, geometry,
                                                                    backward.shape(kWeight), false);
  }
  return gradients;
}

std::vector<ChannelLink> Conv2dBackwardData::channel_links(std::span<const TensorSpec> inputs,
                                                           std::span<const TensorSpec> outputs) const {
  return convolution_links(geometry.groups, inputs[kDy].shape, inputs[kWeight].shape, outputs[kDx].shape,
                           {.x = channel_in(kDy, 1),
                            .read = channel_in(kWeight, 0, ChannelUse::reads),
                            .y = channel_out(kDx, 1),
                            .made = channel_in(kWeight, 1, ChannelUse::makes)});
}

double Conv2dBackwardData::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return convolution_flops(inputs[kDy].shape, inputs[kWeight].shape);
}

void Conv2dBackwardWeights::describe(AttributeVisitor& visit) const {
  geometry.describe(visit);
  visit("w_shape", w_shape, {.hidden = true});
  visit("bias", has_bias, {.hidden = true});
  visit("dtype", std::string(to_string(dtype)), {.hidden = dtype == DType::f32});
}

std::vector<TensorSpec> Conv2dBackwardWeights::infer(std::span<const TensorSpec> inputs) const {
  expect_one_type(inputs, {kX, kDy});
  expect(dtype == DType::f32 || dtype == inputs[kX].dtype,
         "the gradient of weights is f32 or of the type of the images");
  std::vector<TensorSpec> outputs{{.shape = w_shape, .dtype = dtype}};
  if (has_bias) outputs.push_back({.shape = {w_shape[0]}, .dtype = DType::f32});
  return outputs;
}

double Conv2dBackwardWeights::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return convolution_flops(inputs[kDy].shape, w_shape);
}

}  // namespace trainer
