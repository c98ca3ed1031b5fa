// SPDX-License-Identifier: Apache-2.0
#include "core/optim/optimizer.h"

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

  std::vector<std::string> moments() const override {
    if (rule_.momentum == 0) return {};
    return {".momentum"};
  }

  std::shared_ptr<const OptimizerStep> step(const std::vector<UpdatedParameter>& parameters) const override {
    std::vector<bool> adapts;
    for (const UpdatedParameter& parameter : parameters) adapts.push_back(!parameter.spared);
    return std::make_shared<Lars>(rule_, trust_, eps_, decays_of(parameters), std::move(adapts));
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
