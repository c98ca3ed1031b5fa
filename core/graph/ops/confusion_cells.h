// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"
#include "core/graph/ops/cross_entropy_sums.h"

namespace trainer {

/// logits (N, C), labels (N), weights (N) -> i32 (N): label * C + prediction, the cell of the confusion
/// matrix that a sample counts in. The prediction is the class of the largest logit: the lower one among
/// equals, never one of NaN, and class 0 if all are. -1 for samples of weight 0 and for the label
/// `ignored`. logits (N, T, C) or (N, C, H, W): a cell for each position, in the order of the labels.
class ConfusionCells final : public Operation {
 public:
  enum : size_t { kLogits, kLabels, kWeights, kInputs };
  enum : size_t { kCells };

  explicit ConfusionCells(int32_t ignored_label = kNoLabel) : ignored(ignored_label) {}
  std::string_view name() const override { return "confusion_cells"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const int32_t ignored;
};

/// logits (N, C), targets (N, C), weights (N) -> i32 (N * C): of each class of each sample
/// 4 * class + 2 * label + prediction, if the label is 1 for targets of at least 1/2 and the prediction 1
/// for logits above 0, a probability above 1/2. -1 for samples of weight 0.
class LabelSetCells final : public Operation {
 public:
  enum : size_t { kLogits, kTargets, kWeights, kInputs };
  enum : size_t { kCells };

  std::string_view name() const override { return "label_set_cells"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
};

/// The cell of class c, from its target and its logit.
TRAINER_HD int32_t label_set_cell(int64_t c, float target, float logit) {
  return 4 * static_cast<int32_t>(c) + 2 * (target >= 0.5f) + (logit > 0);
}

}  // namespace trainer
