// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "core/export/forms.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/group_norm.h"
#include "core/graph/ops/layer_norm.h"

namespace trainer::onnx_form_of {
namespace {

Value filled(OnnxGraph& graph, int64_t count, float value) {
  return graph.floats({count}, std::vector<float>(static_cast<size_t>(count), value));
}

/// The weights of a row's features; ones if there are none.
Value features_gamma(const ExportedNode& node) {
  return node.has(LayerNorm::kGamma) ? node.x(LayerNorm::kGamma)
                                     : filled(node.graph, node.shape(LayerNorm::kX).back(), 1);
}

}  // namespace

Value batch_norm(const ExportedNode& node) {
  using Norm = BatchNormInference;
  return node.graph.node("BatchNormalization",
                         {node.x(Norm::kX), node.x(Norm::kGamma), node.x(Norm::kBeta), node.x(Norm::kMean),
                          node.x(Norm::kVariance)},
                         {{"epsilon", node.attribute<double>("eps")}});
}

/// GroupNormalization of opset 21 is not used: onnxruntime has no kernel of its own for it. The channels of
/// a group become one channel, which InstanceNormalization normalises.
Value group_norm(const ExportedNode& node) {
  OnnxGraph& graph = node.graph;
  const Shape& x = node.shape(GroupNorm::kX);
  const auto groups = node.attribute<int64_t>("groups");
  Value y = graph.reshape(node.x(GroupNorm::kX), {x[0], groups, x[1] / groups * x[2] * x[3]});
  y = graph.node("InstanceNormalization", {y, filled(graph, groups, 1), filled(graph, groups, 0)},
                 {{"epsilon", node.attribute<double>("eps")}});
  y = graph.reshape(y, x);
  const Shape of_channels{x[1], 1, 1};
  if (node.has(GroupNorm::kGamma))
    y = graph.node("Mul", {y, graph.reshape(node.x(GroupNorm::kGamma), of_channels)});
  if (node.has(GroupNorm::kBeta))
    y = graph.node("Add", {y, graph.reshape(node.x(GroupNorm::kBeta), of_channels)});
  return y;
}

Value layer_norm(const ExportedNode& node) {
  node.require_plain({LayerNorm::kResidual}, {});
  return node.graph.node("LayerNormalization",
                         {node.x(LayerNorm::kX), features_gamma(node), node.x(LayerNorm::kBeta)},
                         {{"axis", int64_t{-1}}, {"epsilon", node.attribute<double>("eps")}});
}

/// In opset 17 the six operators that onnxruntime joins to one.
Value rms_norm(const ExportedNode& node) {
  node.require_plain({LayerNorm::kResidual}, {});
  OnnxGraph& graph = node.graph;
  const Value x = node.x(LayerNorm::kX);
  const auto eps = node.attribute<double>("eps");
  Value y;
  if (graph.opset() >= 23) {
    y = graph.node("RMSNormalization", {x, features_gamma(node)}, {{"axis", int64_t{-1}}, {"epsilon", eps}});
  } else {
    const Value square = graph.node("Pow", {x, graph.number(2)});
    const Value mean =
        graph.node("ReduceMean", {square}, {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{1}}});
    const Value root = graph.node("Sqrt", {graph.node("Add", {mean, graph.number(eps)})});
    y = graph.node("Mul", {graph.node("Div", {x, root}), features_gamma(node)});
  }
  return node.has(LayerNorm::kBeta) ? graph.node("Add", {y, node.x(LayerNorm::kBeta)}) : y;
}

}  // namespace trainer::onnx_form_of
