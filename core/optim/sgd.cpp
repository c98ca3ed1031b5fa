// SPDX-License-Identifier: Apache-2.0
#include "core/optim/optimizer.h"

namespace trainer {
namespace {

class SgdOptimizer final : public Optimizer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("momentum", &rule_.momentum, "share of the last update that is kept").at_least(0).below(1);
    fields.add("nesterov", &rule_.nesterov, "look ahead along the momentum");
  }

  std::vector<std::string> moments() const override {
    if (rule_.momentum == 0) return {};
    return {".momentum"};
  }

  std::shared_ptr<const OptimizerStep> step(const std::vector<UpdatedParameter>& parameters) const override {
    return std::make_shared<Sgd>(rule_, decays_of(parameters));
  }

 private:
  SgdRule rule_;
};

}  // namespace

Registered<Optimizer> sgd_optimizer() {
  return {"sgd", "stochastic gradient descent with momentum, as PyTorch's SGD",
          [] { return std::make_unique<SgdOptimizer>(); }};
}

}  // namespace trainer
