// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/concat.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

/// An operation that joins several layers' outputs.
class MergeLayer : public Layer {
 public:
  size_t min_inputs() const override { return 2; }
  size_t max_inputs() const override { return std::numeric_limits<size_t>::max(); }
};

class BinaryLayer final : public MergeLayer {
 public:
  explicit BinaryLayer(Binary::Kind kind) : kind_(kind) {}

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    TensorId y = x[0];
    for (size_t i = 1; i < x.size(); ++i) y = context.build.emit<Binary>({y, x[i]}, kind_);
    return {y};
  }

 private:
  Binary::Kind kind_;
};

class ConcatLayer final : public MergeLayer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("axis", &axis_, "dimension to concatenate along; 1: channels or features").at_least(1);
  }
  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    return {context.build.emit<Concat>(x, axis_)};
  }

 private:
  int64_t axis_ = 1;
};

}  // namespace

Registered<Layer> add_layer() {
  return {"add", "the sum of its inputs", [] { return std::make_unique<BinaryLayer>(Binary::Kind::add); }};
}

Registered<Layer> mul_layer() {
  return {"mul", "the product of its inputs, element by element",
          [] { return std::make_unique<BinaryLayer>(Binary::Kind::mul); }};
}

Registered<Layer> concat_layer() {
  return {"concat", "concatenates its inputs along an axis", [] { return std::make_unique<ConcatLayer>(); }};
}

}  // namespace trainer
