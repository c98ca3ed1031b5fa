// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"
#include "core/graph/ops/counted_cross_entropy.h"

namespace trainer {

/// logits (N, C), labels (N), weights (N) -> i32 (N): label * C + prediction, the cell of the confusion
/// matrix that a sample counts in. The prediction is the class of the largest logit: the lower one among
/// equals, never one of NaN, and class 0 where all are. -1 for samples of weight 0 and for the label
/// `ignored`. logits (N, T, C) or (N, C, H, W): a cell for each position, in the order of the labels.
class ConfusionCells final : public Operation {
 public:
  explicit ConfusionCells(int32_t ignored_label = kNoLabel) : ignored(ignored_label) {}
  std::string_view name() const override { return "confusion_cells"; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const int32_t ignored;
};

}  // namespace trainer
