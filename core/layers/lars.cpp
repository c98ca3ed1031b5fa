// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/optimizer_steps.h"
#include "core/layers/optimizer.h"

namespace trainer {
namespace {

/// Parameters that no_decay spares are updated by plain SGD: the ratio of norms says nothing about a bias.
class LarsOptimizer final : public Optimizer {
 public:
  LarsOptimizer() { no_decay = {"bias", "norm"}; }

  void declare_parameters(Fields& fields) override {
    fields.add("momentum", &rule_.momentum, "share of the last update that is kept").at_least(0).below(1);
    fields.add("nesterov", &rule_.nesterov, "look ahead along the momentum");
    fields.add("trust", &trust_, "length of a step beside that of the weights").above(0);
    fields.add("eps", &eps_, "added to the gradient's norm").at_least(0);
  }

  void update(Builder& build, const ParameterGradient& pair, const UpdateInputs& inputs,
              double decay) const override {
    const Tensor parameter = build.program().tensor(pair.parameter);
    SgdRule rule = rule_;
    rule.weight_decay = decay;
    std::shared_ptr<const Operation> op = std::make_shared<Lars>(rule, trust_, eps_);
    if (is_spared(parameter)) op = std::make_shared<Sgd>(rule);
    const TensorId m =
        build.program().persistent(parameter.name + ".momentum", parameter.spec, Role::optimizer, {});
    const auto updated = build.emit_all(op, {pair.parameter, pair.gradient, m, inputs.lr, inputs.scale});
    build.assign(pair.parameter, updated[0]);
    build.assign(m, updated[1]);
  }

 private:
  SgdRule rule_{.momentum = 0.9};
  double trust_ = 1e-3, eps_ = 1e-8;
};

}  // namespace

Registered<Optimizer> lars_optimizer() {
  return {"lars", "SGD with momentum, each tensor's step in proportion to its weights, for large batches",
          [] { return std::make_unique<LarsOptimizer>(); }};
}

}  // namespace trainer
