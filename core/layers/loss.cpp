// SPDX-License-Identifier: Apache-2.0
#include "core/layers/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/graph/names.h"
#include "core/graph/operation.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/element_loss.h"

namespace trainer {
namespace {

/// A number for each class of the network's output, that key `key` gives, as a constant (C); kNone if it
/// gives none.
TensorId numbers_of_classes(Builder& build, const std::vector<double>& given, int64_t classes,
                            const Origin& origin, const char* name) {
  if (given.empty()) return kNone;
  if (static_cast<int64_t>(given.size()) != classes) {
    fail_at(origin, fmt::format("needs {} numbers, one for each class of the network's output, got {}",
                                classes, given.size()));
  }
  return build.program().persistent(
      name, {{classes}, DType::f32}, Role::constant,
      {.kind = Initial::Kind::table, .a = 0, .b = 0, .table = {given.begin(), given.end()}});
}

/// Of class labels: some may be ignored, and classes may have weights.
class LabelLoss : public Loss {
 public:
  void declare(Fields& fields) override {
    fields
        .add("ignore_index", &ignore_index_,
             "label of positions to ignore, with data.masks 255 by default; the loss is the mean over the "
             "others")
        .at_least(std::numeric_limits<int32_t>::min() + 1.0)
        .at_most(std::numeric_limits<int32_t>::max());
    fields
        .add("class_weights", &class_weights_,
             "weight of each class; the loss is the mean weighted by the labels' classes. balanced: n / (k * "
             "count) of n training labels of k classes, as scikit-learn's; 1 for a class without any")
        .at_least(0);
  }
  void ignore_by_default(int32_t label) override { default_ignored_ = label; }
  bool normalizes_by_valid_targets() const override { return ignored() || weighs_classes(); }
  bool balances_classes() const override { return class_weights_.is_balanced; }
  int32_t ignored_label() const override { return static_cast<int32_t>(ignored().value_or(kNoLabel)); }

 protected:
  /// Errors from here on are at the loss. A network that does not end in logits gets that error at its last
  /// layer.
  void begin(Builder& build, TensorId logits) const {
    const Shape shape = build.shape(logits);
    if (shape.size() < 2 || shape.size() > 4) {
      fail_at(build.origin(), "expected logits (N, classes), got " + to_string(shape) +
                                  "; end the network with flatten and linear");
    }
    build.set_origin(origin);
  }

  /// Of one label for each position, by the operation that also supports gamma; `how` lacks only
  /// ignore_index.
  LossSums build_sums(Builder& build, TensorId logits, const Targets& targets,
                      CrossEntropySettings how) const {
    if (targets.other_labels != kNone) {
      fail_at(
          !normalizes_by_valid_targets() ? origin : origin_of(ignored() ? "ignore_index" : "class_weights"),
          "counts one label for each sample, but data.mix gives two; remove one of the two");
    }
    how.ignore_index = ignored();
    const auto sums =
        build.emit_all(std::make_shared<CrossEntropySums>(how),
                       {logits, targets.labels, targets.weights, weights_of_classes(build, logits, targets)});
    if (!normalizes_by_valid_targets()) return {.sum = sums[CrossEntropySums::kLoss]};
    return {.sum = sums[CrossEntropySums::kLoss],
            .weight = sums[CrossEntropySums::kWeight],
            .valid_targets = sums[CrossEntropySums::kValidTargets]};
  }

 private:
  std::optional<int64_t> ignored() const { return ignore_index_ ? ignore_index_ : default_ignored_; }

  /// A constant (C), or kNone.
  TensorId weights_of_classes(Builder& build, TensorId logits, const Targets& targets) const {
    if (!weighs_classes()) return kNone;
    const Origin place = origin_of("class_weights");
    const Shape shape = build.shape(logits);
    const int64_t classes = LogitSizes(shape).classes;
    std::vector<double> weights = class_weights_.numbers;
    if (class_weights_.is_balanced) {
      if (shape.size() != 2)
        fail_at(place, "balanced counts one label for each image, but the network's output " +
                           to_string(shape) + " has one for each position; list the weights");
      weights.assign(targets.balanced_weights.begin(), targets.balanced_weights.end());
      if (weights.empty()) weights.resize(static_cast<size_t>(classes), 1);
    }
    if (std::ranges::all_of(weights, [](double weight) { return weight == 0; }))
      fail_at(place, "are all 0, so that no label counts; give some class a weight");
    return numbers_of_classes(build, weights, classes, place, state_name::kClassWeights);
  }

  bool weighs_classes() const { return class_weights_.is_balanced || !class_weights_.numbers.empty(); }

  std::optional<int64_t> ignore_index_, default_ignored_;
  NumbersOrBalanced class_weights_;
};

class CrossEntropyLoss final : public LabelLoss {
 public:
  void declare(Fields& fields) override {
    fields.add("label_smoothing", &label_smoothing_, "fraction of the target spread over all classes")
        .at_least(0)
        .below(1);
    LabelLoss::declare(fields);
  }

  LossSums build(Builder& build, TensorId logits, const Targets& targets) const override {
    begin(build, logits);
    if (normalizes_by_valid_targets())
      return build_sums(build, logits, targets, {.label_smoothing = label_smoothing_});
    return {.sum = build.emit<CrossEntropy>(
                {logits, targets.labels, targets.weights, targets.other_labels, targets.mix_weights},
                label_smoothing_)};
  }

 private:
  double label_smoothing_ = 0;
};

class FocalLoss final : public LabelLoss {
 public:
  void declare(Fields& fields) override {
    fields
        .add("gamma", &gamma_,
             "focusing parameter: each loss is multiplied by (1 - p)^gamma, where p is the label's "
             "probability; 0: cross entropy")
        .at_least(0);
    LabelLoss::declare(fields);
  }

  LossSums build(Builder& build, TensorId logits, const Targets& targets) const override {
    begin(build, logits);
    return build_sums(build, logits, targets, {.gamma = gamma_});
  }

 private:
  double gamma_ = 2;
};

class BinaryCrossEntropyLoss final : public Loss {
 public:
  void declare(Fields& fields) override {
    fields.add("pos_weight", &pos_weight_, "weight of positive samples, per class, as PyTorch's pos_weight")
        .at_least(0);
  }
  TargetKind target_kind() const override { return TargetKind::label_set; }

  LossSums build(Builder& build, TensorId logits, const Targets& targets) const override {
    build.set_origin(origin);
    if (!pos_weight_.empty() && std::ranges::all_of(pos_weight_, [](double weight) { return weight == 0; }))
      fail_at(origin_of("pos_weight"),
              "are all 0, so that no label that a sample has counts; give some class a weight");
    const TensorId positive = numbers_of_classes(build, pos_weight_, build.shape(logits)[1],
                                                 origin_of("pos_weight"), state_name::kPositiveWeights);
    return {.sum = build.emit<ElementLoss>({logits, targets.values, targets.weights, positive},
                                           element_loss::BinaryCrossEntropy{})};
  }

 private:
  std::vector<double> pos_weight_;
};

/// Of numbers: the mean of a rule's loss over the elements of a sample.
class NumberLoss : public Loss {
 public:
  void declare(Fields& /*fields*/) override {}
  TargetKind target_kind() const override { return TargetKind::numbers; }

  LossSums build(Builder& build, TensorId output, const Targets& targets) const override {
    build.set_origin(origin);
    return {.sum = build.emit<ElementLoss>({output, targets.values, targets.weights}, rule())};
  }

 protected:
  virtual element_loss::Rule rule() const = 0;
};

class SquaredErrorLoss final : public NumberLoss {
  element_loss::Rule rule() const override { return element_loss::SquaredError{}; }
};

class AbsoluteErrorLoss final : public NumberLoss {
  element_loss::Rule rule() const override { return element_loss::AbsoluteError{}; }
};

class HuberLoss final : public NumberLoss {
 public:
  void declare(Fields& fields) override {
    fields
        .add("delta", &delta_,
             "error beyond which the loss grows linearly, as PyTorch's; of a table's target in standard "
             "deviations")
        .above(0);
  }

 private:
  element_loss::Rule rule() const override { return element_loss::Huber{static_cast<float>(delta_)}; }

  double delta_ = 1;
};

}  // namespace

const Registry<Loss>& losses() {
  static const Registry<Loss> table = {
      {"cross_entropy", "cross-entropy loss of class labels, with softmax",
       [] { return std::make_unique<CrossEntropyLoss>(); }},
      {"focal", "focal loss: cross entropy that down-weights well-classified samples, for rare classes",
       [] { return std::make_unique<FocalLoss>(); }},
      {"binary_cross_entropy",
       "binary cross-entropy loss with sigmoid, for images with several labels each (data.labels)",
       [] { return std::make_unique<BinaryCrossEntropyLoss>(); }},
      {"mse",
       "mean squared error of the network's output: from a table's targets, else from the network's input",
       [] { return std::make_unique<SquaredErrorLoss>(); }},
      {"l1", "mean absolute error, as mse", [] { return std::make_unique<AbsoluteErrorLoss>(); }},
      {"huber", "Huber loss: squared for small errors, absolute for large ones; as mse",
       [] { return std::make_unique<HuberLoss>(); }},
      distillation_loss(),
  };
  return table;
}

}  // namespace trainer
