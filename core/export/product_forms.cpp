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

}  // namespace

/// Gemm takes matrices only, and hls4ml takes no Gemm.
Value linear(const ExportedNode& node) {
  node.require_plain({Linear::kAdded}, {"relu", "gelu_tanh", "mask"});
  OnnxGraph& graph = node.graph;
  const bool is_stored_transposed = node.attribute<bool>("transposed");
  const Value x = node.x(Linear::kX), w = node.x(Linear::kWeight);
  if (node.shape(Linear::kX).size() == 2 && graph.reader() != OnnxReader::hls4ml) {
    return graph.node("Gemm", {x, w, node.x(Linear::kBias)},
                      {{"transB", int64_t{is_stored_transposed ? 0 : 1}}});
  }
  const Value y = graph.node("MatMul", {x, is_stored_transposed ? w : graph.transpose(w, {1, 0})});
  return node.has(Linear::kBias) ? graph.node("Add", {y, node.x(Linear::kBias)}) : y;
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
  node.require_plain({}, {"relu"});
  return node.graph.node("Add", {node.x(Binary::kA), node.x(Binary::kB)});
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
