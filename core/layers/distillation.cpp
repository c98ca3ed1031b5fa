// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/soft_cross_entropy.h"
#include "core/layers/loss.h"

namespace trainer {
namespace {

/// A constant number (1) of the loss.
TensorId number(Builder& build, const char* name, double value) {
  return build.program().persistent(std::string("distillation.") + name, {{1}, DType::f32}, Role::constant,
                                    {.kind = Initial::Kind::fill, .a = value, .b = 0, .table = {}});
}

/// alpha * soft + (1 - alpha) * hard: the cross entropies with the teacher's softmax and with the labels.
/// Where there are no logits of the teacher, as in evaluation, the latter alone.
class DistillationLoss final : public Loss {
 public:
  void declare(Fields& fields) override {
    fields
        .section("teacher", "the trained network whose logits are learnt",
                 [this](Fields& keys) {
                   keys.add("recipe", &teacher_.recipe, "its recipe").required();
                   keys.add("weights", &teacher_.weights,
                            "its weights: a .safetensors file, or a run's directory")
                       .required();
                 })
        .required();
    fields
        .add("temperature", &temperature_,
             "divides the logits of both networks before their softmax; larger ones show more of how the "
             "teacher ranks the wrong classes")
        .above(0);
    fields
        .add("alpha", &alpha_,
             "share of the loss that compares with the teacher; the rest is with the labels")
        .above(0)
        .at_most(1);
    fields.add("label_smoothing", &label_smoothing_, "fraction of a label's target spread over all classes")
        .at_least(0)
        .below(1);
  }
  const Teacher* teacher() const override { return &teacher_; }

  LossSums build(Builder& build, TensorId logits, const Targets& targets) const override {
    build.set_origin(origin);
    const auto hard = [&] {
      return build.emit<CrossEntropy>(
          {logits, targets.labels, targets.weights, targets.other_labels, targets.mix_weights},
          label_smoothing_);
    };
    if (targets.teacher == kNone) return {.sum = hard()};
    const auto share = [&](TensorId sum, const char* name, double factor) {
      return build.emit<Binary>({sum, number(build, name, factor)}, Binary::Kind::mul);
    };
    const TensorId soft =
        share(build.emit<SoftCrossEntropy>({logits, targets.teacher, targets.weights}, temperature_), "soft",
              alpha_);
    if (alpha_ == 1) return {.sum = soft};
    return {.sum = build.emit<Binary>({soft, share(hard(), "hard", 1 - alpha_)}, Binary::Kind::add)};
  }

 private:
  Teacher teacher_;
  double temperature_ = 4, alpha_ = 0.9, label_smoothing_ = 0;
};

}  // namespace

Registered<Loss> distillation_loss() {
  return {"distillation",
          "learns the logits of a trained network (Hinton, Vinyals and Dean 2015) beside the labels",
          [] { return std::make_unique<DistillationLoss>(); }};
}

}  // namespace trainer
