// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/confusion_cells.h"

#include <fmt/format.h>

#include <limits>

#include "core/graph/ops/cross_entropy.h"

namespace trainer {

void ConfusionCells::describe(AttributeVisitor& visit) const {
  if (ignored != kNoLabel) visit("ignored", int64_t{ignored});
}

std::vector<TensorSpec> ConfusionCells::infer(std::span<const TensorSpec> inputs) const {
  expect_classification(inputs);
  const LogitSizes sizes(inputs[kLogits].shape);
  expect(sizes.classes <= std::numeric_limits<int32_t>::max() / sizes.classes,
         fmt::format("a confusion matrix of {} classes has more cells than 31 bits count", sizes.classes));
  return {{.shape = {sizes.samples * sizes.positions}, .dtype = DType::i32}};
}

std::vector<TensorSpec> LabelSetCells::infer(std::span<const TensorSpec> inputs) const {
  const Shape& logits = inputs[kLogits].shape;
  expect_type(inputs, {kWeights}, DType::f32);
  expect_one_type(inputs, {kLogits, kTargets});
  expect(logits.size() == 2 && inputs[kTargets].shape == logits && inputs[kWeights].shape == Shape{logits[0]},
         "needs logits (N, C), targets of that shape and weights (N)");
  expect(logits[1] <= std::numeric_limits<int32_t>::max() / 4,
         fmt::format("{} classes have more cells than 31 bits count", logits[1]));
  return {{.shape = {numel(logits)}, .dtype = DType::i32}};
}

}  // namespace trainer
