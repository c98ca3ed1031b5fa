// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/graph/ops/attention.h"
#include "tests/ops/sketch.h"

namespace trainer {

/// One use of attention in a test.
struct AttentionCase {
  int64_t samples = 1, queries = 1;
  int64_t keys = 0;  ///< 0: the number of queries
  int64_t heads = 1;
  int64_t kv_heads = 0;  ///< 0: the number of heads
  int64_t size = 1;
  bool causal = false;
  int64_t window = 0;
  int64_t first = -1;  ///< position of the first query; below 0: no such input
  bool packed = false, documents = false;
  double dropout = 0, scale = 0;
  bool constant = false;  ///< q and k have no gradient, since no probability depends on them

  AttentionSettings settings() const {
    AttentionSettings settings{.heads = heads,
                               .kv_heads = kv_heads > 0 ? kv_heads : heads,
                               .causal = causal,
                               .window = window,
                               .scale = scale};
    if (dropout > 0) settings.dropout = DropoutSettings{.p = dropout, .key = 11};
    return settings;
  }
};

inline std::string to_string(const AttentionCase& c) {
  return fmt::format("{} samples, {} queries, {} keys, {}/{} heads of {}, window {}, first {}{}{}{}{}",
                     c.samples, c.queries, c.keys, c.heads, c.kv_heads, c.size, c.window, c.first,
                     c.causal ? ", causal" : "", c.packed ? ", packed" : "", c.documents ? ", documents" : "",
                     c.dropout > 0 ? ", dropout" : "");
}

/// Parameters (of constant probabilities: inputs) "q" (or all packed), "k" and "v", and the outputs of
/// attention to them.
inline std::vector<TensorId> emit_attention(Sketch& sketch, const AttentionCase& c) {
  namespace in = attention_input;
  const AttentionSettings settings = c.settings();
  const int64_t keys = c.keys > 0 ? c.keys : c.queries;
  std::vector<TensorId> inputs(in::kInputCount, kNone);
  const int64_t packed_heads = c.packed ? settings.heads + 2 * settings.kv_heads : settings.heads;
  auto given = [&](const char* name, const Shape& shape) {
    return c.constant ? sketch.input(name, shape) : sketch.parameter(name, shape);
  };
  inputs[in::kQ] = given("q", {c.samples, c.queries, packed_heads * c.size});
  if (!c.packed) {
    inputs[in::kK] = given("k", {c.samples, keys, settings.kv_heads * c.size});
    inputs[in::kV] = sketch.parameter("v", {c.samples, keys, settings.kv_heads * c.size});
  }
  if (c.first >= 0) {
    inputs[in::kFirstPosition] = sketch.integers("first", 1, 1);
    sketch.values["first"][0] = static_cast<float>(c.first);
  }
  if (c.documents) {
    inputs[in::kStart] = sketch.integers("start", {c.samples, c.queries}, 1);
    std::vector<float>& start = sketch.values["start"];
    for (size_t i = 0; i < start.size(); ++i) {
      const auto t = static_cast<float>(i % static_cast<size_t>(c.queries));
      start[i] = t == 0 ? 0.0f : sketch.random().next_below(7) == 0 ? t : start[i - 1];
    }
  }
  if (settings.dropout) {
    inputs[in::kSample] = sketch.integers("samples", c.samples, 1000);
    inputs[in::kStep] = sketch.integers("step", 1, 1000);
  }
  return sketch.build().emit_all(std::make_shared<Attention>(settings), inputs);
}

inline void draft_attention(Sketch& sketch, const AttentionCase& c) {
  const std::vector<TensorId> made = emit_attention(sketch, c);
  sketch.output("y", made[0]);
  if (!c.documents) sketch.output("log_sum", made[1]);
  sketch.loss(made[0]);
}

}  // namespace trainer
