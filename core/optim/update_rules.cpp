// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/update_rules.h"

#include "core/graph/ops/optimizer_steps.h"
#include "core/optim/optimizer.h"

namespace trainer {
namespace {

/// The optimiser of one rule; its parameters are the rule's.
template <class Rule>
class RuleOptimizer final : public Optimizer {
 public:
  RuleOptimizer() {
    lr = Rule::kLr;
    weight_decay = Rule::kWeightDecay;
    if (Rule::kSparesBiasAndNorm) no_decay = {"bias", "norm"};
  }

 protected:
  void declare_parameters(Fields& fields) override { rule_.declare(fields); }

  std::vector<std::string> moments() const override {
    const update::MomentNames names = rule_.moments();
    return {names.begin(), names.end()};
  }

  std::shared_ptr<const OptimizerStep> step(const std::vector<UpdatedParameter>& parameters) const override {
    std::vector<StepSetting> settings;
    for (const UpdatedParameter& parameter : parameters) {
      settings.push_back({.weight_decay = parameter.weight_decay,
                          .lr_factor = parameter.lr_factor,
                          .adapts = Rule::kAdapts && !parameter.spared});
    }
    return std::make_shared<OptimizerStep>(rule_, std::move(settings));
  }

 private:
  Rule rule_;
};

template <class... Rules>
Registry<Optimizer> rows_of(const std::variant<Rules...>*) {
  return {{Rules::kName, Rules::kHelp, [] { return std::make_unique<RuleOptimizer<Rules>>(); }}...};
}

}  // namespace

const Registry<Optimizer>& optimizers() {
  static const Registry<Optimizer> table = rows_of(static_cast<const update::Rule*>(nullptr));
  return table;
}

}  // namespace trainer
