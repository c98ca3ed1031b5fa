// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/attention.h"

#include <algorithm>
#include <optional>

#include "core/graph/ops/append_to_cache.h"
#include "core/graph/ops/concat.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

namespace in = attention_input;

class AttentionLayer final : public Layer {
 public:
  size_t max_inputs() const override { return 3; }

  void declare_parameters(Fields& fields) override {
    fields.add("heads", &heads_, "number of query heads").required().dimension(1).bare();
    fields
        .add("kv_heads", &kv_heads_,
             "number of key and value heads (grouped-query attention); must divide heads; default: heads")
        .dimension(1);
    fields.add("causal", &causal_, "causal mask: a position attends only to itself and earlier ones");
    fields
        .add("sliding_window", &sliding_window_,
             "sliding window, with causal: a position attends to this many positions, itself included")
        .dimension(1);
    fields.add("dropout", &dropout_, "dropout probability of the attention weights").at_least(0).below(1);
    fields.add("scale", &scale_, "scale of the scores; default: 1 / sqrt(head dimension)").above(0);
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    if (sliding_window_ && !causal_)
      fail_at(origin_of("sliding_window"), "is for causal attention only; set causal: true");
    std::vector<TensorId> given(in::kInputCount, kNone);
    std::ranges::copy(x, given.begin() + in::kQ);
    AttentionSettings settings{.heads = heads_,
                               .kv_heads = kv_heads_.value_or(heads_),
                               .causal = causal_,
                               .window = sliding_window_.value_or(0),
                               .scale = scale_.value_or(0)};
    // A padded sample has one document, which all its tokens may see whole.
    if (!causal_ && context.document_start != kNone && context.token_weights == kNone)
      fail_at(origin, "documents are kept apart in causal attention only; set causal: true");
    given[in::kStart] = context.document_start;
    if (context.training && dropout_ > 0) {
      settings.dropout =
          DropoutSettings{.p = dropout_, .key = random_key(context.seed, "dropout " + context.name)};
      given[in::kSample] = context.sample_index;
      given[in::kStep] = context.step;
    }
    if (context.cached_positions > 0) read_from_cache(context, given, settings);
    return {context.build.emit<Attention>(given, settings)};
  }

 private:
  /// In generation: keys and values join those of the tokens before, and all are read from there.
  static void read_from_cache(LayerContext& context, std::vector<TensorId>& given,
                              const AttentionSettings& settings) {
    if (given[in::kK] == kNone) unpack(context.build, given, settings);
    if (given[in::kV] == kNone) return;  // refused as it would be in training
    given[in::kK] = append(context, "cached_keys", given[in::kK]);
    given[in::kV] = append(context, "cached_values", given[in::kV]);
    given[in::kFirstPosition] = context.first_position;
  }

  /// Queries, keys and values that are adjacent in `q`, each alone.
  static void unpack(Builder& build, std::vector<TensorId>& given, const AttentionSettings& settings) {
    const TensorId packed = given[in::kQ];
    const Shape shape = build.shape(packed);
    const int64_t heads = settings.heads + 2 * settings.kv_heads;
    if (shape.size() != 3 || shape[2] % heads != 0) return;
    const int64_t size = shape[2] / heads, q = settings.heads * size, kv = settings.kv_heads * size;
    given[in::kQ] = build.emit<Slice>({packed}, 2, 0, q);
    given[in::kK] = build.emit<Slice>({packed}, 2, q, kv);
    given[in::kV] = build.emit<Slice>({packed}, 2, q + kv, kv);
  }

  static TensorId append(LayerContext& context, const char* suffix, TensorId rows) {
    const Shape shape = context.build.shape(rows);
    const TensorSpec spec{{shape[0], context.cached_positions, shape.back()}, DType::f32};
    const TensorId cache =
        context.build.program().persistent(context.name + "." + suffix, spec, Role::cache, {});
    const TensorId value = context.build.emit<AppendToCache>({cache, rows, context.first_position});
    context.build.assign(cache, value);
    return value;
  }

  int64_t heads_ = 1;
  std::optional<int64_t> kv_heads_, sliding_window_;
  bool causal_ = false;
  double dropout_ = 0;
  std::optional<double> scale_;
};

}  // namespace

Registered<Layer> attention_layer() {
  return {"attention",
          "scaled dot-product attention over sequences; reads queries, keys and values as three inputs, or "
          "as one that concatenates them",
          [] { return std::make_unique<AttentionLayer>(); }};
}

}  // namespace trainer
