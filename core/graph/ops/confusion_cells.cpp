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
  const LogitExtents extents(inputs[0].shape);
  expect(extents.classes <= std::numeric_limits<int32_t>::max() / extents.classes,
         fmt::format("a confusion matrix of {} classes has more cells than 31 bits count", extents.classes));
  return {{.shape = {extents.samples * extents.positions}, .dtype = DType::i32}};
}

}  // namespace trainer
