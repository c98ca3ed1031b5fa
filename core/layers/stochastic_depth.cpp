// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/stochastic_depth.h"

#include "core/layers/table.h"

namespace trainer {
namespace {

class StochasticDepthLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("p", &p_, "probability that a sample skips this branch in training")
        .required()
        .at_least(0)
        .below(1)
        .bare();
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    if (!context.training || p_ == 0) return {x[0]};
    const DropoutRule rule{.p = p_, .key = random_key(context.seed, "stochastic_depth " + context.name)};
    return {context.build.emit<StochasticDepth>({x[0], context.sample_index, context.step}, rule)};
  }

 private:
  double p_ = 0;
};

}  // namespace

Registered<Layer> stochastic_depth_layer() {
  return {"stochastic_depth",
          "sets whole samples to 0 at random in training, scaling the others by 1 / (1 - p); put it before "
          "an add",
          [] { return std::make_unique<StochasticDepthLayer>(); }};
}

}  // namespace trainer
