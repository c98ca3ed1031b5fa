// SPDX-License-Identifier: Apache-2.0
#include "core/layers/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/graph/names.h"
#include "core/graph/operation.h"
#include "core/graph/ops/cross_entropy.h"

namespace trainer {
namespace {

/// Of class labels: some may be left out, and classes may weigh.
class LabelLoss : public Loss {
 public:
  void declare(Fields& fields) override {
    fields
        .add("ignore_index", &ignore_index_,
             "label of positions that count for nothing; the loss is the mean over the others")
        .at_least(std::numeric_limits<int32_t>::min() + 1.0)
        .at_most(std::numeric_limits<int32_t>::max());
    fields
        .add("class_weights", &class_weights_,
             "weight of each class; the loss is the mean weighted by the labels' classes")
        .at_least(0);
  }
  bool counts() const override { return ignore_index_ || !class_weights_.empty(); }
  int32_t ignored_label() const override {
    return ignore_index_ ? static_cast<int32_t>(*ignore_index_) : kNoLabel;
  }

 protected:
  /// Of one label for each position, by the operation that knows gamma too; `how` lacks only ignore_index.
  LossSums build_counted(Builder& build, TensorId logits, const Targets& targets, LossCounting how) const {
    if (targets.other_labels != kNone) {
      fail_at(!counts() ? origin : origin_of(ignore_index_ ? "ignore_index" : "class_weights"),
              "counts one label for each sample, but data.mix gives two; remove one of the two");
    }
    how.ignore_index = ignore_index_;
    const auto sums =
        build.emit_all(std::make_shared<CountedCrossEntropy>(how),
                       {logits, targets.labels, targets.weights, weights_of_classes(build, logits)});
    if (!counts()) return {.sum = sums[CountedCrossEntropy::kLoss]};
    return {.sum = sums[CountedCrossEntropy::kLoss],
            .weight = sums[CountedCrossEntropy::kWeight],
            .counted = sums[CountedCrossEntropy::kCounted]};
  }

 private:
  /// A constant (C), or kNone.
  TensorId weights_of_classes(Builder& build, TensorId logits) const {
    if (class_weights_.empty()) return kNone;
    const int64_t classes = LogitExtents(build.shape(logits)).classes;
    const auto given = static_cast<int64_t>(class_weights_.size());
    if (given != classes) {
      fail_at(origin_of("class_weights"),
              fmt::format("needs {} numbers, one for each class of the network's output, got {}", classes,
                          given));
    }
    if (std::ranges::all_of(class_weights_, [](double weight) { return weight == 0; }))
      fail_at(origin_of("class_weights"), "are all 0, so that no label counts; give some class a weight");
    return build.program().persistent(state_name::kClassWeights, {{classes}, DType::f32}, Role::constant,
                                      {.kind = Initial::Kind::table,
                                       .a = 0,
                                       .b = 0,
                                       .table = {class_weights_.begin(), class_weights_.end()}});
  }

  std::optional<int64_t> ignore_index_;
  std::vector<double> class_weights_;
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
    build.set_origin(origin);
    if (counts()) return build_counted(build, logits, targets, {.label_smoothing = label_smoothing_});
    std::vector<TensorId> inputs{logits, targets.labels, targets.weights};
    if (targets.other_labels != kNone)
      inputs.insert(inputs.end(), {targets.other_labels, targets.mix_weights});
    return {.sum = build.emit<CrossEntropy>(inputs, label_smoothing_)};
  }

 private:
  double label_smoothing_ = 0;
};

class FocalLoss final : public LabelLoss {
 public:
  void declare(Fields& fields) override {
    fields
        .add("gamma", &gamma_,
             "power of 1 - p, p the label's probability, by which its loss is multiplied; 0: cross entropy")
        .at_least(0);
    LabelLoss::declare(fields);
  }

  LossSums build(Builder& build, TensorId logits, const Targets& targets) const override {
    build.set_origin(origin);
    return build_counted(build, logits, targets, {.gamma = gamma_});
  }

 private:
  double gamma_ = 2;
};

}  // namespace

const Registry<Loss>& losses() {
  static const Registry<Loss> table = {
      {"cross_entropy", "softmax and cross entropy of class labels",
       [] { return std::make_unique<CrossEntropyLoss>(); }},
      {"focal", "cross entropy in which labels that are predicted well count less, for rare classes",
       [] { return std::make_unique<FocalLoss>(); }},
  };
  return table;
}

}  // namespace trainer
