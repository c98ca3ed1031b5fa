// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/dropout.h"

#include "core/layers/table.h"

namespace trainer {
namespace {

class DropoutLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("p", &p_, "dropout probability").at_least(0).below(1).bare();
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    if (!context.training || p_ == 0) return {x[0]};
    const DropoutSettings settings{.p = p_, .key = random_key(context.seed, "dropout " + context.name)};
    return {context.build.emit<Dropout>({x[0], context.sample_index, context.step}, settings)};
  }

 private:
  double p_ = 0.5;
};

}  // namespace

Registered<Layer> dropout_layer() {
  return {"dropout",
          "dropout: sets elements to 0 at random in training, and scales the others by 1 / (1 - p)",
          [] { return std::make_unique<DropoutLayer>(); }};
}

}  // namespace trainer
