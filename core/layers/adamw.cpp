// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/optimizer_steps.h"
#include "core/layers/optimizer.h"

namespace trainer {
namespace {

class AdamWOptimizer final : public Optimizer {
 public:
  explicit AdamWOptimizer(bool decoupled) {
    rule_.decoupled = decoupled;
    lr = 1e-3;
    weight_decay = decoupled ? 0.01 : 0;
  }

  void declare_parameters(Fields& fields) override {
    fields.add("beta1", &rule_.beta1, "decay of the first moment").at_least(0).below(1);
    fields.add("beta2", &rule_.beta2, "decay of the second moment").at_least(0).below(1);
    fields.add("eps", &rule_.eps, "added to the root of the second moment").above(0);
  }

  void update(Builder& build, const ParameterGradient& pair, const UpdateInputs& inputs,
              double decay) const override {
    const Tensor parameter = build.program().tensor(pair.parameter);
    auto moment = [&](const char* suffix) {
      return build.program().persistent(parameter.name + suffix, parameter.spec, Role::optimizer, {});
    };
    const TensorId m = moment(".exp_avg"), v = moment(".exp_avg_sq");
    AdamWRule rule = rule_;
    rule.weight_decay = decay;
    const auto updated =
        build.emit_all(std::make_shared<AdamW>(rule),
                       {pair.parameter, pair.gradient, m, v, inputs.lr, inputs.updates, inputs.scale});
    build.assign(pair.parameter, updated[0]);
    build.assign(m, updated[1]);
    build.assign(v, updated[2]);
  }

 private:
  AdamWRule rule_;
};

}  // namespace

Registered<Optimizer> adamw_optimizer() {
  return {"adamw", "Adam with decoupled weight decay, as PyTorch's AdamW",
          [] { return std::make_unique<AdamWOptimizer>(true); }};
}

Registered<Optimizer> adam_optimizer() {
  return {"adam", "Adam, weight decay being part of the gradient, as PyTorch's Adam",
          [] { return std::make_unique<AdamWOptimizer>(false); }};
}

}  // namespace trainer
