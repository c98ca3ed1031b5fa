// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/graph/ops/concat.h"
#include "core/graph/ops/matmul.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/rearrange.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/scale_features.h"
#include "core/graph/ops/tokens.h"
#include "core/layers/initializer.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

/// The shape of a sequence (N, T, features), at the layer's place.
Shape sequence_shape(const LayerContext& context, TensorId x, const Layer& layer) {
  Shape shape = context.build.shape(x);
  if (shape.size() != 3)
    fail_at(layer.origin, "expected sequences (N, T, features), got shape " + to_string(shape));
  return shape;
}

/// A key that names a dimension of x, samples being 0.
struct Dimension {
  int64_t number = 1;

  void declare(Fields& fields, const char* name, const char* help) {
    fields.add(name, &number, help).at_least(1).at_most(5);
  }
  size_t of(const Shape& shape, const Origin& origin) const {
    if (number < static_cast<int64_t>(shape.size())) return static_cast<size_t>(number);
    fail_at(origin, fmt::format("shape {} has dimensions 0 to {}, 0 being the samples", to_string(shape),
                                shape.size() - 1));
  }
};

class ClassTokenLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override { initializer_.declare(fields); }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape shape = sequence_shape(context, x[0], *this);
    const TensorId token = context.parameter("", {1, 1, shape[2]}, initializer_.table(1, shape[2]));
    const TensorId tokens = context.build.emit<RepeatSamples>({token}, shape[0]);
    return {context.build.emit<Concat>({tokens, x[0]}, 1)};
  }

 private:
  Initializer initializer_;
};

class SliceLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    dimension_.declare(fields, "axis", "dimension to slice; 1: tokens, or channels of images");
    fields.add("begin", &begin_, "first index to keep; negative: counted from the end");
    fields.add("end", &end_,
               "index after the last one to keep; negative: counted from the end; default: the end");
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape shape = context.build.shape(x[0]);
    const size_t dimension = dimension_.of(shape, origin_of("axis"));
    const int64_t size = shape[dimension];
    const int64_t begin = from_start(begin_, size), end = from_start(end_.value_or(size), size);
    if (begin < 0 || begin >= end || end > size) {
      fail_at(origin_of(written.contains("end") ? "end" : "begin"),
              fmt::format("[{}, {}) is not part of the {} indices of dimension {}", begin_,
                          end_.value_or(size), size, dimension_.number));
    }
    return {context.build.emit<Slice>({x[0]}, dimension_.number, begin, end - begin)};
  }

 private:
  static int64_t from_start(int64_t index, int64_t size) { return index < 0 ? index + size : index; }

  Dimension dimension_;
  int64_t begin_ = 0;
  std::optional<int64_t> end_;
};

class PadLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    dimension_.declare(fields, "axis", "dimension to pad; 1: tokens, or channels of images");
    fields.add("before", &before_, "zeros at the start").dimension(0);
    fields.add("after", &after_, "zeros at the end").dimension(0);
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    dimension_.of(context.build.shape(x[0]), origin_of("axis"));
    return {context.build.emit<Pad>({x[0]}, dimension_.number, before_, after_)};
  }

 private:
  Dimension dimension_;
  int64_t before_ = 0, after_ = 0;
};

class ScaleLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("value", &value_, "value of the factors; the initial one if they are learned");
    fields.add("learned", &learned_, "learn the factors (LayerScale)");
    fields.add("bare", &bare_,
               "store learned factors as (features, 1, 1), named as the layer itself without .weight, as "
               "torchvision's layer_scale");
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape factors{context.build.shape(x[0]).back()};
    const Initial initial{.kind = Initial::Kind::fill, .a = value_, .b = 0, .table = {}};
    return {context.build.emit<ScaleFeatures>({x[0], factor(context, factors, initial)})};
  }

 private:
  TensorId factor(LayerContext& context, const Shape& factors, const Initial& initial) const {
    if (bare_ && !learned_)
      fail_at(origin_of("bare"), "is for learned factors; remove it, or set learned: true");
    if (!learned_)
      return context.build.program().persistent(context.name + ".factors", {factors, DType::f32},
                                                Role::constant, initial);
    if (!bare_) return context.parameter("weight", factors, initial);
    const TensorId s = context.parameter("", {factors[0], 1, 1}, initial);
    return context.build.emit<Reshape>({s}, factors);
  }

  double value_ = 1;
  bool learned_ = true, bare_ = false;
};

class TransposeLayer final : public Layer {
 public:
  TransposeLayer() { second_.number = 2; }
  void declare_parameters(Fields& fields) override {
    first_.declare(fields, "first", "first of the dimensions to swap; 0 would be the samples");
    second_.declare(fields, "second", "second of the dimensions to swap");
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape shape = context.build.shape(x[0]);
    first_.of(shape, origin_of("first"));
    second_.of(shape, origin_of("second"));
    const auto [a, b] = std::minmax(first_.number, second_.number);
    if (a == b) fail_at(origin_of("second"), "must be another dimension than first");
    return {context.build.emit<Transpose>({x[0]}, a, b)};
  }

 private:
  Dimension first_, second_;
};

class MeanTokensLayer final : public Layer {
 public:
  /// Features as channels of images that are T high.
  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape shape = sequence_shape(context, x[0], *this);
    Builder& build = context.build;
    if (context.token_weights != kNone) return {weighted(context, x[0])};
    TensorId y = build.emit<TokensToImages>({x[0]}, Size2d{shape[1], 1});
    y = build.emit<AvgPool2d>({y}, Conv2dGeometry{.kernel = {shape[1], 1}});
    return {build.emit<Reshape>({y}, Shape{shape[0], shape[2]})};
  }

 private:
  /// Without the padding.
  TensorId weighted(LayerContext& context, TensorId x) const {
    Builder& build = context.build;
    const Shape shape = build.shape(x), weights = build.shape(context.token_weights);
    if (shape[1] != weights[1])
      fail_at(origin,
              fmt::format("averages the {} tokens of the text, which may be padding, and met {}; remove "
                          "the layer that changes their number",
                          weights[1], shape[1]));
    const TensorId row = build.emit<Reshape>({context.token_weights}, Shape{shape[0], 1, shape[1]});
    return build.emit<Reshape>({build.emit<MatMul>({row, x}, false, false)}, Shape{shape[0], shape[2]});
  }
};

}  // namespace

Registered<Layer> class_token_layer() {
  return {"class_token",
          "prepends a learned class token, named as the layer: (N, T, features) to (N, T + 1, features)",
          [] { return std::make_unique<ClassTokenLayer>(); }};
}

Registered<Layer> slice_layer() {
  return {"slice", "selects a range along one dimension", [] { return std::make_unique<SliceLayer>(); }};
}

Registered<Layer> pad_layer() {
  return {"pad", "pads one dimension with zeros", [] { return std::make_unique<PadLayer>(); }};
}

Registered<Layer> scale_layer() {
  return {"scale", "multiplies each feature (last dimension) by its own factor",
          [] { return std::make_unique<ScaleLayer>(); }};
}

Registered<Layer> transpose_layer() {
  return {"transpose", "swaps two dimensions", [] { return std::make_unique<TransposeLayer>(); }};
}

Registered<Layer> mean_tokens_layer() {
  return {"mean_tokens", "average over the tokens of each sequence: (N, T, features) to (N, features)",
          [] { return std::make_unique<MeanTokensLayer>(); }};
}

}  // namespace trainer
