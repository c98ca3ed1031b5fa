// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <limits>
#include <vector>

#include "core/export/forms.h"
#include "core/graph/ops/attention.h"
#include "core/graph/ops/embedding.h"
#include "core/graph/ops/positions.h"
#include "core/graph/ops/rotary.h"

namespace trainer::onnx_form_of {
namespace {

namespace in = attention_input;
/// Queries, keys and values, each (N, T, features).
struct Sequences {
  Value q, k, v;
  int64_t samples, tokens, heads, kv_heads, size;
};

Sequences sequences_of(const ExportedNode& node) {
  const Shape& q = node.shape(in::kQ);
  const auto heads = node.attribute<int64_t>("heads"), kv_heads = node.attribute<int64_t>("kv_heads");
  const bool is_packed = !node.has(in::kK);
  const int64_t size = q[2] / (is_packed ? heads + 2 * kv_heads : heads);
  Sequences all{.q = node.x(in::kQ),
                .k = node.x(in::kK),
                .v = node.x(in::kV),
                .samples = q[0],
                .tokens = q[1],
                .heads = heads,
                .kv_heads = kv_heads,
                .size = size};
  if (!is_packed) return all;
  const int64_t of_q = heads * size, of_kv = kv_heads * size;
  all.k = node.graph.slice(all.q, 2, of_q, of_q + of_kv);
  all.v = node.graph.slice(all.q, 2, of_q + of_kv, of_q + 2 * of_kv);
  all.q = node.graph.slice(all.q, 2, 0, of_q);
  return all;
}

/// What is added to the scores (T, T): 0 for keys that a query sees. The lowest number, rather than minus
/// infinity, so that a reader may quantise it. The graph makes it of T numbers: a file of T * T would grow
/// beyond what readers take.
Value mask_of(const ExportedNode& node, int64_t tokens) {
  const AttentionSettings settings{.causal = node.attribute<bool>("causal"),
                                   .window = node.attribute<int64_t>("window")};
  std::vector<int64_t> all, first, end;
  for (int64_t position = 0; position < tokens; ++position) {
    const AttentionSettings::Keys seen = settings.keys_of(position, tokens, 0);
    all.push_back(position);
    first.push_back(seen.first);
    end.push_back(seen.end);
  }
  OnnxGraph& graph = node.graph;
  return graph.once(fmt::format("mask {} {} {}", tokens, settings.causal, settings.window), [&] {
    const auto of_queries = [&](const std::vector<int64_t>& keys) {
      return graph.reshape(graph.integers(keys), {tokens, 1});
    };
    const Value keys = graph.integers(all);
    Value seen = graph.node("Less", {keys, of_queries(end)});
    if (settings.window > 0)
      seen = graph.node("And", {seen, graph.node("GreaterOrEqual", {keys, of_queries(first)})});
    return graph.node("Where", {seen, graph.number(0), graph.number(std::numeric_limits<float>::lowest())});
  });
}

/// (N, T, heads * size) as (N, heads, T, size).
Value by_head(OnnxGraph& graph, const Value& x, const Sequences& all, int64_t heads) {
  return graph.transpose(graph.reshape(x, {all.samples, all.tokens, heads, all.size}), {0, 2, 1, 3});
}

/// The same with each head of keys or values once for each of its queries' heads.
Value for_queries(OnnxGraph& graph, const Value& x, const Sequences& all) {
  const int64_t group = all.heads / all.kv_heads;
  Value heads = by_head(graph, x, all, all.kv_heads);
  if (group == 1) return heads;
  heads = graph.reshape(heads, {all.samples, all.kv_heads, 1, all.tokens, all.size});
  heads = graph.expand(heads, {1, all.kv_heads, group, all.tokens, all.size});
  return graph.reshape(heads, {all.samples, all.heads, all.tokens, all.size});
}

Value attention_of_opset17(const ExportedNode& node, const Sequences& all, double scale) {
  OnnxGraph& graph = node.graph;
  const Value q = by_head(graph, all.q, all, all.heads);
  const Value k = graph.transpose(for_queries(graph, all.k, all), {0, 1, 3, 2});
  Value scores = graph.node("Mul", {graph.node("MatMul", {q, k}), graph.number(scale)});
  if (node.attribute<bool>("causal")) scores = graph.node("Add", {scores, mask_of(node, all.tokens)});
  const Value shares = graph.node("Softmax", {scores}, {{"axis", int64_t{-1}}});
  const Value y = graph.node("MatMul", {shares, for_queries(graph, all.v, all)});
  return graph.reshape(graph.transpose(y, {0, 2, 1, 3}), node.output());
}

/// The cosines, or the sines, of the first `tokens` rows of a table: (tokens, features / 2), in this shape.
Value angles(const ExportedNode& node, bool sines, const Shape& shape) {
  const auto features = static_cast<size_t>(node.attribute<int64_t>("features"));
  const auto tokens = static_cast<size_t>(node.shape(position_input::kX)[1]);
  const std::vector<double>& table = node.initial(position_input::kTable).table;
  const double sign = sines && node.attribute<bool>("inverse") ? -1 : 1;
  std::vector<float> values;
  for (size_t token = 0; token < tokens; ++token) {
    for (size_t i = 0; i < features / 2; ++i)
      values.push_back(static_cast<float>(sign * table[token * features + i + (sines ? features / 2 : 0)]));
  }
  return node.graph.floats(shape, values);
}

/// x (N, T, heads * size) with the operator of opset 23.
Value rotary_node(const ExportedNode& node, const Value& x, int64_t heads) {
  const Shape& shape = node.shape(position_input::kX);
  const auto features = node.attribute<int64_t>("features"), size = node.attribute<int64_t>("size");
  std::vector<int64_t> positions;
  for (int64_t token = 0; token < shape[1]; ++token) positions.push_back(token);
  const Shape table{shape[1], features / 2};
  return node.graph.node("RotaryEmbedding",
                         {x, angles(node, false, table), angles(node, true, table),
                          node.graph.expand(node.graph.integers(positions), {shape[0], shape[1]})},
                         {{"num_heads", heads},
                          {"interleaved", int64_t{node.attribute<bool>("interleaved")}},
                          {"rotary_embedding_dim", features == size ? int64_t{0} : features}});
}

/// The same in opset 17: a' = a cos - b sin, b' = b cos + a sin for the pairs (a, b) of features.
Value turned(const ExportedNode& node, const Value& x, int64_t heads) {
  OnnxGraph& graph = node.graph;
  const Shape& shape = node.shape(position_input::kX);
  const auto features = node.attribute<int64_t>("features"), size = node.attribute<int64_t>("size");
  const bool interleaved = node.attribute<bool>("interleaved");
  const int64_t half = features / 2;
  const Value by_heads = graph.reshape(x, {shape[0], shape[1], heads, size});
  const Value all = features == size ? by_heads : graph.slice(by_heads, 3, 0, features);
  const Value pairs = interleaved ? graph.reshape(all, {shape[0], shape[1], heads, half, 2}) : all;
  const int64_t axis = interleaved ? 4 : 3, step = interleaved ? 1 : half;
  const Shape table = interleaved ? Shape{shape[1], 1, half, 1} : Shape{shape[1], 1, half};
  const Value a = graph.slice(pairs, axis, 0, step), b = graph.slice(pairs, axis, step, 2 * step);
  const Value cosines = angles(node, false, table), sines = angles(node, true, table);
  const auto product = [&](const Value& left, const Value& right) {
    return graph.node("Mul", {left, right});
  };
  const Value to_a = graph.node("Sub", {product(a, cosines), product(b, sines)});
  const Value to_b = graph.node("Add", {product(b, cosines), product(a, sines)});
  Value y = graph.concat({to_a, to_b}, axis);
  if (interleaved) y = graph.reshape(y, {shape[0], shape[1], heads, features});
  if (features < size) y = graph.concat({y, graph.slice(by_heads, 3, features, size)}, 3);
  return graph.reshape(y, {shape[0], shape[1], heads * size});
}

}  // namespace

/// A mask of causal attention is an attribute of opset 23's operator, a window is not.
Value attention(const ExportedNode& node) {
  node.require_plain({in::kFirstPosition, in::kStart, in::kSample, in::kStep}, {});
  const Sequences all = sequences_of(node);
  const AttentionSettings settings{.scale = node.attribute<double>("scale")};
  const double scale = settings.factor(all.size);
  if (node.graph.opset() < 23) return attention_of_opset17(node, all, scale);
  const bool has_window = node.attribute<int64_t>("window") > 0;
  std::vector<OnnxAttribute> attributes = {
      {"q_num_heads", all.heads}, {"kv_num_heads", all.kv_heads}, {"scale", scale}};
  if (!has_window) attributes.push_back({"is_causal", int64_t{node.attribute<bool>("causal")}});
  const Value mask = has_window ? mask_of(node, all.tokens) : "";
  return node.graph.node("Attention", {all.q, all.k, all.v, mask}, std::move(attributes));
}

/// Heads after the turned ones stay as they are.
Value rotary(const ExportedNode& node) {
  node.require_plain({position_input::kFirstPosition, position_input::kStart}, {});
  const int64_t width = node.shape(position_input::kX)[2], heads = node.attribute<int64_t>("heads"),
                turned_width = heads * node.attribute<int64_t>("size");
  const Value x = node.x(position_input::kX);
  const Value first = turned_width == width ? x : node.graph.slice(x, 2, 0, turned_width);
  Value y = node.graph.opset() < 23 ? turned(node, first, heads) : rotary_node(node, first, heads);
  if (turned_width == width) return y;
  return node.graph.concat({y, node.graph.slice(x, 2, turned_width, width)}, 2);
}

Value add_positions(const ExportedNode& node) {
  node.require_plain({position_input::kFirstPosition, position_input::kStart}, {});
  const int64_t tokens = node.shape(position_input::kX)[1], rows = node.shape(position_input::kTable)[0];
  const Value table = node.x(position_input::kTable);
  const Value used = tokens == rows ? table : node.graph.slice(table, 0, 0, tokens);
  return node.graph.node("Add", {node.x(position_input::kX), used});
}

Value embedding(const ExportedNode& node) {
  return node.graph.node("Gather", {node.x(Embedding::kTable), node.x(Embedding::kIds)},
                         {{"axis", int64_t{0}}});
}

}  // namespace trainer::onnx_form_of
