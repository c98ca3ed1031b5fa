// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "core/export/forms.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/rearrange.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/tokens.h"

// Operations that move elements and compute nothing.

namespace trainer::onnx_form_of {

Value reshape(const ExportedNode& node) {
  return node.graph.reshape(node.x(Reshape::kX), node.output());
}

Value transpose(const ExportedNode& node) {
  std::vector<int64_t> order;
  for (size_t d = 0; d < node.output().size(); ++d) order.push_back(static_cast<int64_t>(d));
  std::swap(order[static_cast<size_t>(node.attribute<int64_t>("first"))],
            order[static_cast<size_t>(node.attribute<int64_t>("second"))]);
  return node.graph.transpose(node.x(Transpose::kX), order);
}

Value slice(const ExportedNode& node) {
  const auto begin = node.attribute<int64_t>("begin");
  return node.graph.slice(node.x(Slice::kX), node.attribute<int64_t>("axis"), begin,
                          begin + node.attribute<int64_t>("length"));
}

/// Counts of zeros before each dimension, then after each.
Value pad(const ExportedNode& node) {
  const size_t rank = node.output().size();
  const auto axis = static_cast<size_t>(node.attribute<int64_t>("axis"));
  std::vector<int64_t> counts(2 * rank, 0);
  counts[axis] = node.attribute<int64_t>("before");
  counts[rank + axis] = node.attribute<int64_t>("after");
  return node.graph.node("Pad", {node.x(Pad::kX), node.graph.integers(counts)},
                         {{"mode", std::string("constant")}});
}

Value concat(const ExportedNode& node) {
  return node.graph.concat(node.all(), node.attribute<int64_t>("axis"));
}

Value repeat_samples(const ExportedNode& node) {
  return node.graph.expand(node.x(RepeatSamples::kX), node.output());
}

Value images_to_tokens(const ExportedNode& node) {
  return node.graph.reshape(node.graph.transpose(node.x(ImagesToTokens::kX), {0, 2, 3, 1}), node.output());
}

Value tokens_to_images(const ExportedNode& node) {
  const Shape& y = node.output();
  const Value rows = node.graph.reshape(node.x(TokensToImages::kX), {y[0], y[2], y[3], y[1]});
  return node.graph.transpose(rows, {0, 3, 1, 2});
}

}  // namespace trainer::onnx_form_of
