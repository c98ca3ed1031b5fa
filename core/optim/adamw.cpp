// SPDX-License-Identifier: Apache-2.0
#include "core/optim/optimizer.h"

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

  std::vector<std::string> moments() const override { return {".exp_avg", ".exp_avg_sq"}; }

  std::shared_ptr<const OptimizerStep> step(const std::vector<UpdatedParameter>& parameters) const override {
    return std::make_shared<AdamW>(rule_, decays_of(parameters));
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
