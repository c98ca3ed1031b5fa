// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/optimizer_steps.h"
#include "core/layers/optimizer.h"

namespace trainer {
namespace {

class SgdOptimizer final : public Optimizer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("momentum", &momentum_, "share of the last update that is kept").at_least(0).below(1);
    fields.add("nesterov", &nesterov_, "look ahead along the momentum");
  }

  void update(Builder& build, const ParameterGradient& pair, const UpdateInputs& inputs,
              double decay) const override {
    const Tensor parameter = build.program().tensor(pair.parameter);
    const SgdRule rule{.momentum = momentum_, .weight_decay = decay, .nesterov = nesterov_};
    TensorId m = kNone;
    if (momentum_ > 0) {
      m = build.program().persistent(parameter.name + ".momentum", parameter.spec, Role::optimizer, {});
    }
    const auto updated = build.emit_all(std::make_shared<Sgd>(rule),
                                        {pair.parameter, pair.gradient, m, inputs.lr, inputs.scale});
    build.assign(pair.parameter, updated[0]);
    if (m != kNone) build.assign(m, updated[1]);
  }

 private:
  double momentum_ = 0;
  bool nesterov_ = false;
};

}  // namespace

Registered<Optimizer> sgd_optimizer() {
  return {"sgd", "stochastic gradient descent with momentum, as PyTorch's SGD",
          [] { return std::make_unique<SgdOptimizer>(); }};
}

}  // namespace trainer
