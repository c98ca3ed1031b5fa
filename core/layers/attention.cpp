// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/attention.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "core/layers/table.h"

namespace trainer {
namespace {

namespace in = attention_input;

class AttentionLayer final : public Layer {
 public:
  size_t max_inputs() const override { return 3; }

  void declare_parameters(Fields& fields) override {
    fields.add("heads", &heads_, "heads of the query, each with its own probabilities")
        .required()
        .extent(1)
        .bare();
    fields.add("kv_heads", &kv_heads_, "heads of key and value; a divisor of heads; default: as many")
        .extent(1);
    fields.add("causal", &causal_, "a position sees only itself and those before it");
    fields.add("window", &window_, "with causal: a position sees only the last so many").extent(1);
    fields.add("dropout", &dropout_, "probability that a probability becomes 0 in training")
        .at_least(0)
        .below(1);
    fields.add("scale", &scale_, "factor of the scores; default: 1 / sqrt(features of a head)").above(0);
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    if (context.cached_positions > 0) throw std::logic_error("attention has no cache of keys and values");
    if (window_ && !causal_) fail_at(origin_of("window"), "is for causal attention only; set causal: true");
    std::vector<TensorId> given(in::kInputCount, kNone);
    std::ranges::copy(x, given.begin() + in::kQ);
    AttentionRule rule{.heads = heads_,
                       .kv_heads = kv_heads_.value_or(heads_),
                       .causal = causal_,
                       .window = window_.value_or(0),
                       .scale = scale_.value_or(0)};
    if (!causal_ && context.document_start != kNone)
      fail_at(origin, "documents are kept apart in causal attention only; set causal: true");
    given[in::kStart] = context.document_start;
    if (context.training && dropout_ > 0) {
      rule.dropout = DropoutRule{.p = dropout_, .key = random_key(context.seed, "dropout " + context.name)};
      given[in::kSample] = context.sample_index;
      given[in::kStep] = context.step;
    }
    return {context.build.emit<Attention>(given, rule)};
  }

 private:
  int64_t heads_ = 1;
  std::optional<int64_t> kv_heads_, window_;
  bool causal_ = false;
  double dropout_ = 0;
  std::optional<double> scale_;
};

}  // namespace

Registered<Layer> attention_layer() {
  return {
      "attention",
      "scaled dot-product attention of sequences: reads queries, keys and values, or one input that holds "
      "all three side by side",
      [] { return std::make_unique<AttentionLayer>(); }};
}

}  // namespace trainer
