// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/update_rules.h"

#include "core/optim/muon.h"
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

  void append_step(Builder& build, const StepInputs& inputs,
                   const std::vector<ParameterGradient>& parameters) const override {
    append_rule(build, inputs, rule_, parameters);
  }
  bool updates_each_element() const override { return !Rule::kAdapts; }

 protected:
  void declare_parameters(Fields& fields) override { rule_.declare(fields); }

 private:
  Rule rule_;
};

template <class... Rules>
Registry<Optimizer> rows_of(const std::variant<Rules...>*) {
  return {{Rules::kName, Rules::kHelp, [] { return std::make_unique<RuleOptimizer<Rules>>(); }}...};
}

}  // namespace

const Registry<Optimizer>& optimizers() {
  static const Registry<Optimizer> table = [] {
    Registry<Optimizer> rows = rows_of(static_cast<const update::Rule*>(nullptr));
    rows.push_back(muon_optimizer());
    return rows;
  }();
  return table;
}

}  // namespace trainer
