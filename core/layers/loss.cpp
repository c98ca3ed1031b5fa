// SPDX-License-Identifier: Apache-2.0
#include "core/layers/loss.h"

#include "core/graph/operation.h"
#include "core/graph/ops/cross_entropy.h"

namespace trainer {
namespace {

class CrossEntropyLoss final : public Loss {
 public:
  void declare(Fields& fields) override {
    fields.add("label_smoothing", &label_smoothing_, "fraction of the target spread over all classes")
        .at_least(0)
        .below(1);
  }
  TensorId build(Builder& build, TensorId logits, const Targets& targets) const override {
    build.set_origin(origin);
    std::vector<TensorId> inputs{logits, targets.labels, targets.weights};
    if (targets.other_labels != kNone)
      inputs.insert(inputs.end(), {targets.other_labels, targets.mix_weights});
    return build.emit<CrossEntropy>(inputs, label_smoothing_);
  }

 private:
  double label_smoothing_ = 0;
};

}  // namespace

const Registry<Loss>& losses() {
  static const Registry<Loss> table = {
      {"cross_entropy", "softmax and cross entropy of class labels",
       [] { return std::make_unique<CrossEntropyLoss>(); }},
  };
  return table;
}

}  // namespace trainer
