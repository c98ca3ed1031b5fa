// SPDX-License-Identifier: Apache-2.0
#include "core/export/forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "core/graph/ops/gated.h"
#include "core/graph/ops/unary.h"

namespace trainer {
namespace {

constexpr auto kOnnxRows = std::to_array<OnnxRow>({
    {"add", onnx_form_of::add},
    {"add_channels", onnx_form_of::add_channels},
    {"add_positions", onnx_form_of::add_positions},
    {"attention", onnx_form_of::attention},
    {"avg_pool2d", onnx_form_of::avg_pool2d},
    {"batch_norm_inference", onnx_form_of::batch_norm},
    {"concat", onnx_form_of::concat},
    {"conv2d", onnx_form_of::conv2d},
    {"conv2d_backward_data", onnx_form_of::conv2d_backward_data},
    {"dequantize", onnx_form_of::dequantize},
    {"embedding", onnx_form_of::embedding},
    {"group_norm", onnx_form_of::group_norm},
    {"images_to_tokens", onnx_form_of::images_to_tokens},
    {"layer_norm", onnx_form_of::layer_norm},
    {"linear", onnx_form_of::linear},
    {"log_softmax", onnx_form_of::log_softmax},
    {"matmul", onnx_form_of::matmul},
    {"max_pool2d", onnx_form_of::max_pool2d},
    {"mul", onnx_form_of::mul},
    {"pad", onnx_form_of::pad},
    {"quantize", onnx_form_of::quantize},
    {"quantized_conv2d", onnx_form_of::quantized_conv2d},
    {"quantized_linear", onnx_form_of::quantized_linear},
    {"repeat_samples", onnx_form_of::repeat_samples},
    {"resample2d", onnx_form_of::resample2d},
    {"reshape", onnx_form_of::reshape},
    {"rms_norm", onnx_form_of::rms_norm},
    {"rotary", onnx_form_of::rotary},
    {"scale_channels", onnx_form_of::scale_channels},
    {"scale_features", onnx_form_of::scale_features},
    {"slice", onnx_form_of::slice},
    {"softmax", onnx_form_of::softmax},
    {"tokens_to_images", onnx_form_of::tokens_to_images},
    {"transpose", onnx_form_of::transpose},
});

/// The operators of ONNX that hls4ml 1.3.0 converts (hls4ml/converters/onnx) and that forms use.
constexpr auto kTakenByHls4ml = std::to_array<std::string_view>({"Add",
                                                                 "AveragePool",
                                                                 "BatchNormalization",
                                                                 "Concat",
                                                                 "Conv",
                                                                 "Elu",
                                                                 "GlobalAveragePool",
                                                                 "Identity",
                                                                 "LeakyRelu",
                                                                 "MatMul",
                                                                 "MaxPool",
                                                                 "Mul",
                                                                 "Pad",
                                                                 "Quant",
                                                                 "Relu",
                                                                 "Reshape",
                                                                 "Sigmoid",
                                                                 "Softmax",
                                                                 "Softplus",
                                                                 "Tanh",
                                                                 "Transpose"});

/// What of this program is nearest to an operation that hls4ml does not take.
std::string nearest_for_hls4ml(const Operation& op) {
  const bool is_function = dynamic_cast<const Unary*>(&op) != nullptr;
  if (is_function) return "use relu, leaky_relu, elu, sigmoid, tanh or softplus";
  if (op.name() == "layer_norm" || op.name() == "rms_norm" || op.name() == "group_norm")
    return "use batch_norm";
  if (op.name() == "log_softmax") return "use softmax";
  if (op.name() == "resample2d" || op.name() == "conv2d_backward_data")
    return "use conv2d without a change of size";
  return "use conv2d, linear and pooling layers";
}

}  // namespace

ExportedNode::ExportedNode(OnnxGraph& to, const Node& node, std::vector<OnnxGraph::Value> values,
                           std::vector<Shape> of_inputs, Shape of_output, const Program& program)
    : graph(to),
      node_(node),
      program_(program),
      values_(std::move(values)),
      shapes_(std::move(of_inputs)),
      output_(std::move(of_output)),
      attributes_(attributes_of(*node.op)) {}

const AttributeValue& ExportedNode::find(std::string_view name) const {
  const auto found = std::ranges::find(attributes_, name, &Attribute::name);
  if (found == attributes_.end())
    throw std::logic_error(fmt::format("{} describes no attribute {}", op().name(), name));
  return found->value;
}

void ExportedNode::require_plain(std::initializer_list<size_t> inputs,
                                 std::initializer_list<std::string_view> flags) const {
  const bool is_plain = std::ranges::none_of(inputs, [&](size_t input) { return has(input); }) &&
                        std::ranges::none_of(flags, [&](std::string_view flag) {
                          const auto found = std::ranges::find(attributes_, flag, &Attribute::name);
                          return found != attributes_.end() && std::get<bool>(found->value);
                        });
  if (!is_plain) throw std::logic_error(fmt::format("a pass has changed {}, which is exported", op().name()));
}

void ExportedNode::refuse(const std::string& remedy) const {
  fail_at(origin(), fmt::format("{} has no ONNX form here; {}", op().name(), remedy));
}

std::span<const OnnxRow> onnx_rows() {
  return kOnnxRows;
}

OnnxForm onnx_form(const Operation& op) {
  if (dynamic_cast<const Unary*>(&op) != nullptr) return onnx_form_of::unary;
  if (dynamic_cast<const Gated*>(&op) != nullptr) return onnx_form_of::gated;
  const auto row = std::ranges::find(kOnnxRows, op.name(), &OnnxRow::operation);
  return row == kOnnxRows.end() ? nullptr : row->form;
}

OnnxGraph::Value with_end(OnnxGraph& graph, OnnxGraph::Value y, const OnnxGraph::Value& addend, bool relu,
                          double ceiling) {
  if (!addend.empty()) y = graph.node("Add", {y, addend});
  if (!relu) return y;
  if (std::isfinite(ceiling)) return graph.node("Clip", {y, graph.number(0), graph.number(ceiling)});
  return graph.node("Relu", {y});
}

void check_reader(const ExportedNode& node, size_t first) {
  if (node.graph.reader() != OnnxReader::hls4ml) return;
  const std::span<const OnnxNode> made = std::span(node.graph.nodes()).subspan(first);
  for (const OnnxNode& each : made) {
    if (std::ranges::find(kTakenByHls4ml, each.type) != kTakenByHls4ml.end()) continue;
    fail_at(node.origin(), fmt::format("hls4ml 1.3.0 does not take the ONNX operator {} of {}; {}", each.type,
                                       node.op().name(), nearest_for_hls4ml(node.op())));
  }
}

}  // namespace trainer
