// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <variant>
#include <vector>

#include "core/export/forms.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/channels.h"
#include "core/graph/ops/gated.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/matmul.h"
#include "core/graph/ops/quantized_product.h"
#include "core/graph/ops/scale_features.h"
#include "core/graph/ops/softmax.h"
#include "core/graph/ops/unary.h"

// Products, sums, functions and softmax.

namespace trainer::onnx_form_of {
namespace {

/// With its last two dimensions exchanged.
Value transposed_matrices(OnnxGraph& graph, const Value& x, size_t rank) {
  std::vector<int64_t> order;
  for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int64_t>(d));
  std::swap(order[rank - 1], order[rank - 2]);
  return graph.transpose(x, order);
}

Value of_function(OnnxGraph& graph, const elementwise::Function& function, const Value& x) {
  return std::visit([&](const auto& f) { return f.onnx(graph, x); }, function);
}

/// Of channels of images, else of the last dimension.
Value normalized(const ExportedNode& node, std::string_view type) {
  const int64_t axis = node.shape(Softmax::kX).size() == 4 ? 1 : -1;
  return node.graph.node(type, {node.x(Softmax::kX)}, {{"axis", axis}});
}

/// Gemm takes matrices only, and hls4ml takes no Gemm.
bool is_gemm(const ExportedNode& node) {
  return node.shape(Linear::kX).size() == 2 && node.graph.reader() != OnnxReader::hls4ml;
}

}  // namespace

Value linear(const ExportedNode& node) {
  node.require_plain({}, {"gelu_tanh", "mask"});
  OnnxGraph& graph = node.graph;
  const bool is_stored_transposed = node.attribute<bool>("transposed");
  const Value x = node.x(Linear::kX), w = node.x(Linear::kWeight), bias = node.x(Linear::kBias);
  Value y;
  if (is_gemm(node)) {
    y = graph.node("Gemm", {x, w, bias}, {{"transB", int64_t{is_stored_transposed ? 0 : 1}}});
  } else {
    y = graph.node("MatMul", {x, is_stored_transposed ? w : graph.transpose(w, {1, 0})});
    y = with_end(graph, y, bias, false);
  }
  return with_end(graph, y, node.x(Linear::kAdded), node.attribute<bool>("relu"));
}

Value quantized_linear(const ExportedNode& node) {
  OnnxGraph& graph = node.graph;
  const Value x = node.x(QuantizedLinear::kX), bias = node.x(QuantizedLinear::kBias);
  if (is_gemm(node))
    return rounded_result(node,
                          graph.node("Gemm", {x, rounded_weights(node), bias}, {{"transB", int64_t{1}}}));
  const Value y = graph.node("MatMul", {x, rounded_transposed_weights(node)});
  return rounded_result(node, with_end(graph, y, bias, false));
}

Value matmul(const ExportedNode& node) {
  const auto factor = [&](size_t input, const char* flag) {
    return node.attribute<bool>(flag)
               ? transposed_matrices(node.graph, node.x(input), node.shape(input).size())
               : node.x(input);
  };
  const Value a = factor(MatMul::kA, "transpose_a"), b = factor(MatMul::kB, "transpose_b");
  return node.graph.node("MatMul", {a, b});
}

Value add(const ExportedNode& node) {
  const auto& op = static_cast<const Binary&>(node.op());
  return with_end(node.graph, node.x(Binary::kA), node.x(Binary::kB), op.relu, op.ceiling);
}

Value mul(const ExportedNode& node) {
  return node.graph.node("Mul", {node.x(Binary::kA), node.x(Binary::kB)});
}

Value scale_features(const ExportedNode& node) {
  return node.graph.node("Mul", {node.x(ScaleFeatures::kX), node.x(ScaleFeatures::kFactors)});
}

Value scale_channels(const ExportedNode& node) {
  return node.graph.node("Mul", {node.x(ScaleChannels::kX), node.x(ScaleChannels::kFactors)});
}

Value add_channels(const ExportedNode& node) {
  const Shape of_channels{node.shape(AddChannels::kBias)[0], 1, 1};
  return node.graph.node(
      "Add", {node.x(AddChannels::kX), node.graph.reshape(node.x(AddChannels::kBias), of_channels)});
}

Value softmax(const ExportedNode& node) {
  return normalized(node, "Softmax");
}

Value log_softmax(const ExportedNode& node) {
  return normalized(node, "LogSoftmax");
}

Value unary(const ExportedNode& node) {
  return of_function(node.graph, static_cast<const Unary&>(node.op()).function, node.x(Unary::kX));
}

Value gated(const ExportedNode& node) {
  const Value gate =
      of_function(node.graph, static_cast<const Gated&>(node.op()).function, node.x(Gated::kGate));
  return node.graph.node("Mul", {gate, node.x(Gated::kX)});
}

}  // namespace trainer::onnx_form_of
