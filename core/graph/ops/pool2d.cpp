// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/pool2d.h"

#include <fmt/format.h>

namespace trainer {
namespace {

TensorSpec pooled(const TensorSpec& input, const Conv2dGeometry& geometry) {
  const Shape& x = input.shape;
  expect(x.size() == 4, "expected images (N, C, H, W), got " + to_string(x));
  for (size_t d = 0; d < 2; ++d) {
    expect(geometry.padding[d] * 2 <= geometry.kernel[d],
           fmt::format("padding {} is more than half the window of {}", geometry.padding[d],
                       geometry.kernel[d]));
  }
  const Size2d out = geometry.output({x[2], x[3]});
  expect(out[0] > 0 && out[1] > 0, fmt::format("a {}x{} window does not fit into a {}x{} image",
                                               geometry.kernel[0], geometry.kernel[1], x[2], x[3]));
  return {.shape = {x[0], x[1], out[0], out[1]}, .dtype = input.dtype};
}

double window_flops(const Conv2dGeometry& geometry, const TensorSpec& y) {
  return static_cast<double>(numel(y.shape)) * static_cast<double>(geometry.kernel[0] * geometry.kernel[1]);
}

}  // namespace

std::vector<TensorSpec> MaxPool2d::infer(std::span<const TensorSpec> inputs) const {
  expect(geometry.kernel[0] * geometry.kernel[1] <= 255, "the window must have at most 255 places");
  const TensorSpec y = pooled(inputs[kX], geometry);
  return {y, {.shape = y.shape, .dtype = DType::u8}};
}

std::vector<TensorId> MaxPool2d::gradient(const Backward& backward) const {
  return {backward.build.emit<MaxPool2dBackward>({backward.dy[kY], backward.y(kPlaces)}, geometry,
                                                 backward.shape(kX))};
}

std::vector<ChannelLink> MaxPool2d::channel_links(std::span<const TensorSpec> /*inputs*/,
                                                  std::span<const TensorSpec> outputs) const {
  std::vector<ChannelLink> links = links_of_channels({kX}, outputs[kY].shape);
  links[0].places.push_back(channel_out(kPlaces, 1));
  return links;
}

double MaxPool2d::flops(std::span<const TensorSpec>, std::span<const TensorSpec> outputs) const {
  return window_flops(geometry, outputs[kY]);
}

void MaxPool2dBackward::describe(AttributeVisitor& visit) const {
  geometry.describe(visit);
  visit("x_shape", x_shape, {.hidden = true});
}

std::vector<TensorSpec> MaxPool2dBackward::infer(std::span<const TensorSpec> inputs) const {
  return {{.shape = x_shape, .dtype = inputs[kDy].dtype}};
}

std::vector<TensorSpec> AvgPool2d::infer(std::span<const TensorSpec> inputs) const {
  return {pooled(inputs[kX], geometry)};
}

std::vector<TensorId> AvgPool2d::gradient(const Backward& backward) const {
  return {backward.build.emit<AvgPool2dBackward>({backward.dy[kY]}, geometry, backward.shape(kX))};
}

double AvgPool2d::flops(std::span<const TensorSpec>, std::span<const TensorSpec> outputs) const {
  return window_flops(geometry, outputs[kY]);
}

void AvgPool2dBackward::describe(AttributeVisitor& visit) const {
  geometry.describe(visit);
  visit("x_shape", x_shape, {.hidden = true});
}

std::vector<TensorSpec> AvgPool2dBackward::infer(std::span<const TensorSpec> inputs) const {
  return {{.shape = x_shape, .dtype = inputs[kDy].dtype}};
}

}  // namespace trainer
