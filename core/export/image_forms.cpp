// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "core/export/forms.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/quantized_product.h"
#include "core/graph/ops/resample2d.h"

// Images: convolutions, pooling and resampling. All have explicit pads, as many on both sides.

namespace trainer::onnx_form_of {
namespace {

using Attributes = std::vector<OnnxAttribute>;

std::vector<int64_t> listed(const Size2d& sizes) {
  return {sizes[0], sizes[1]};
}

/// The attributes that convolutions and pools share.
Attributes window(const ExportedNode& node) {
  const auto padding = node.attribute<Size2d>("padding");
  return {{"kernel_shape", listed(node.attribute<Size2d>("kernel"))},
          {"strides", listed(node.attribute<Size2d>("stride"))},
          {"pads", std::vector<int64_t>{padding[0], padding[1], padding[0], padding[1]}}};
}

Attributes convolution(const ExportedNode& node) {
  Attributes attributes = window(node);
  attributes.push_back({"dilations", listed(node.attribute<Size2d>("dilation"))});
  attributes.push_back({"group", node.attribute<int64_t>("groups")});
  return attributes;
}

/// The divisor of `size` nearest to `wanted`, the smaller of two.
int64_t nearest_divisor(int64_t size, int64_t wanted) {
  for (int64_t away = 0; away < size; ++away) {
    for (const int64_t tried : {wanted - away, wanted + away}) {
      if (tried >= 1 && tried <= size && size % tried == 0) return tried;
    }
  }
  return 1;
}

[[noreturn]] void refuse_uneven(const ExportedNode& node) {
  const Shape &x = node.shape(Resample2d::kX), &y = node.output();
  node.refuse(
      fmt::format("{}x{} outputs need windows of several sizes for {}x{} inputs; write output_size: "
                  "[{}, {}]",
                  y[2], y[3], x[2], x[3], nearest_divisor(x[2], y[2]), nearest_divisor(x[3], y[3])));
}

}  // namespace

Value conv2d(const ExportedNode& node) {
  node.require_plain({Conv2d::kZeroSums, Conv2d::kZeroSquares}, {"moments"});
  const Value y = node.graph.node(
      "Conv", {node.x(Conv2d::kX), node.x(Conv2d::kWeight), node.x(Conv2d::kBias)}, convolution(node));
  return with_end(node.graph, y, node.x(Conv2d::kResidual), node.attribute<bool>("relu"));
}

Value quantized_conv2d(const ExportedNode& node) {
  const Value y = node.graph.node(
      "Conv", {node.x(QuantizedConv2d::kX), rounded_weights(node), node.x(QuantizedConv2d::kBias)},
      convolution(node));
  return rounded_result(node, y);
}

/// The rows and columns that no window of y reaches are the output padding.
Value conv2d_backward_data(const ExportedNode& node) {
  const Shape &x = node.shape(Conv2dBackwardData::kDy), &y = node.output();
  const auto kernel = node.attribute<Size2d>("kernel"), stride = node.attribute<Size2d>("stride"),
             padding = node.attribute<Size2d>("padding"), dilation = node.attribute<Size2d>("dilation");
  std::vector<int64_t> added;
  for (size_t d = 0; d < 2; ++d) {
    const int64_t reached = (x[d + 2] - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel[d] - 1) + 1;
    added.push_back(y[d + 2] - reached);
  }
  Attributes attributes = convolution(node);
  attributes.push_back({"output_padding", added});
  return node.graph.node("ConvTranspose",
                         {node.x(Conv2dBackwardData::kDy), node.x(Conv2dBackwardData::kWeight)},
                         std::move(attributes));
}

Value max_pool2d(const ExportedNode& node) {
  return node.graph.node("MaxPool", {node.x(MaxPool2d::kX)}, window(node));
}

/// A window of the whole image has an operator of its own, which is faster.
Value avg_pool2d(const ExportedNode& node) {
  const Shape& x = node.shape(AvgPool2d::kX);
  const bool is_global = node.attribute<Size2d>("kernel") == Size2d{x[2], x[3]} &&
                         node.attribute<Size2d>("padding") == Size2d{0, 0};
  if (is_global) return node.graph.node("GlobalAveragePool", {node.x(AvgPool2d::kX)});
  Attributes attributes = window(node);
  attributes.push_back({"count_include_pad", int64_t{1}});
  return node.graph.node("AveragePool", {node.x(AvgPool2d::kX)}, std::move(attributes));
}

/// By factors rather than sizes, since a list of sizes would have the batch in it.
Value resample2d(const ExportedNode& node) {
  const auto mode = node.attribute<std::string>("mode");
  if (mode == "average") refuse_uneven(node);
  const Shape &x = node.shape(Resample2d::kX), &y = node.output();
  if (y[2] % x[2] != 0 || y[3] % x[3] != 0) node.refuse("use a factor that is a whole number");
  const int64_t down = y[2] / x[2], across = y[3] / x[3];
  const std::vector<float> factors = {1, 1, static_cast<float>(down), static_cast<float>(across)};
  const bool is_nearest = mode == "nearest", is_aligned = node.attribute<bool>("align_corners");
  Attributes attributes = {{"mode", std::string(is_nearest ? "nearest" : "linear")},
                           {"coordinate_transformation_mode", std::string(is_nearest   ? "asymmetric"
                                                                          : is_aligned ? "align_corners"
                                                                                       : "half_pixel")}};
  if (is_nearest) attributes.push_back({"nearest_mode", std::string("floor")});
  return node.graph.node("Resize", {node.x(Resample2d::kX), "", node.graph.floats({4}, factors)},
                         std::move(attributes));
}

}  // namespace trainer::onnx_form_of
