// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/positions.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/graph/ops/reshape.h"
#include "core/graph/ops/rotary.h"
#include "core/layers/initializer.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

/// Rows of a table; more would only be a mistake.
constexpr int64_t kMostPositions = int64_t{1} << 22;

Shape expect_sequences(const LayerContext& context, TensorId x, const Origin& origin) {
  Shape shape = context.build.shape(x);
  if (shape.size() != 3)
    fail_at(origin, "expected sequences (N, T, features), got shape " + to_string(shape));
  return shape;
}

class PositionsLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("max_positions", &most_, "number of positions in the table, the longest sequence")
        .required()
        .dimension(1)
        .at_most(kMostPositions);
    fields.add("kind", &kind_, "learned, or the sines and cosines of \"Attention Is All You Need\"")
        .one_of({"learned", "sinusoidal"});
    fields.add("bare", &bare_,
               "store a learned table as (1, max_positions, features), named as the layer itself without "
               ".weight, as timm's pos_embed");
    initializer_.declare(fields);
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape shape = expect_sequences(context, x[0], origin);
    // In generation a sequence comes in pieces; its length is that of attention's caches.
    const int64_t tokens = std::max(shape[1], context.cached_positions);
    if (tokens > most_) {
      fail_at(origin_of("max_positions"),
              fmt::format("a sequence has {} tokens; write {} or more, or shorten "
                          "model.input",
                          tokens, tokens));
    }
    return {context.build.emit<AddPositions>(
        {x[0], table(context, shape[2]), context.first_position, context.document_start})};
  }

 private:
  TensorId table(LayerContext& context, int64_t features) const {
    const Shape shape{most_, features};
    if (kind_ == "learned") {
      const Initial initial = initializer_.table(most_, features);
      if (!bare_) return context.parameter("weight", shape, initial);
      return context.build.emit<Reshape>({context.parameter("", {1, most_, features}, initial)}, shape);
    }
    if (bare_) fail_at(origin_of("bare"), "is for a learned table; remove it, or set kind: learned");
    Initial values{.kind = Initial::Kind::table, .a = 0, .b = 0, .table = sinusoidal_table(most_, features)};
    return context.build.program().persistent(context.name + ".table", {shape, DType::f32}, Role::constant,
                                              std::move(values));
  }

  int64_t most_ = 0;
  std::string kind_ = "learned";
  bool bare_ = false;
  Initializer initializer_;
};

class RotaryLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("heads", &heads_, "number of heads in the input, those of keys and values included")
        .required()
        .dimension(1);
    fields
        .add("rotated", &rotated_,
             "number of leading heads to rotate, those of queries and keys; default: all")
        .dimension(1);
    fields.add("features", &features_, "number of leading features of each head to rotate; default: all")
        .dimension(2);
    fields.add("theta", &theta_, "base of the rotation's wavelengths").above(1);
    fields
        .add("style", &style_,
             "half: rotates feature i with i + features / 2, as in Llama; interleaved: with its neighbour")
        .one_of({"half", "interleaved"});
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape shape = expect_sequences(context, x[0], origin);
    if (shape[2] % heads_ != 0) {
      fail_at(origin_of("heads"),
              fmt::format("{} features cannot be divided equally among {} heads", shape[2], heads_));
    }
    const RotarySettings settings = rule_for(shape[2] / heads_);
    const int64_t positions = std::max(shape[1], context.cached_positions);
    return {context.build.emit<Rotary>(
        {x[0], table(context, settings.features, positions), context.first_position, context.document_start},
        settings)};
  }

 private:
  RotarySettings rule_for(int64_t size) const {
    const int64_t rotated = rotated_.value_or(heads_), features = features_.value_or(size);
    if (rotated > heads_)
      fail_at(origin_of("rotated"), fmt::format("must be at most {}, the heads that there are", heads_));
    if (features > size || features % 2 != 0) {
      fail_at(origin_of("features"), fmt::format("must be an even number up to {}, the features of a head, "
                                                 "got {}",
                                                 size, features));
    }
    return {.heads = rotated, .size = size, .features = features, .interleaved = style_ == "interleaved"};
  }

  /// One for all layers that turn alike.
  TensorId table(LayerContext& context, int64_t features, int64_t positions) const {
    Program& all = context.build.program();
    const std::string of_table = fmt::format("rotary.{}.{}.{}", theta_, features, positions);
    Initial values{.kind = Initial::Kind::table, .a = 0, .b = 0, .table = {}};
    // A long table takes as long to compute as the rest of the network to build.
    if (all.find(of_table) == kNone) values.table = rotary_table(theta_, features, positions);
    return all.persistent(of_table, {{positions, features}, DType::f32}, Role::constant, std::move(values));
  }

  int64_t heads_ = 0;
  std::optional<int64_t> rotated_, features_;
  double theta_ = 10000;
  std::string style_ = "half";
};

}  // namespace

Registered<Layer> positions_layer() {
  return {"positions", "adds a position embedding to each token of (N, T, features)",
          [] { return std::make_unique<PositionsLayer>(); }};
}

Registered<Layer> rotary_layer() {
  return {"rotary", "rotary position embedding (RoPE) of each head",
          [] { return std::make_unique<RotaryLayer>(); }};
}

}  // namespace trainer
