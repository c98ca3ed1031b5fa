// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/stochastic_depth.h"

namespace trainer {

void StochasticDepth::describe(AttributeVisitor& visit) const {
  rule.describe(visit);
}

std::vector<TensorSpec> StochasticDepth::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs[1] == TensorSpec{{inputs[0].shape[0]}, DType::i32}, "needs one index per sample");
  expect(inputs[2] == TensorSpec{{1}, DType::i32}, "needs the step");
  return {inputs[0]};
}

std::vector<TensorId> StochasticDepth::gradient(const Backward& backward) const {
  return {backward.build.emit<StochasticDepth>({backward.dy[0], backward.x(1), backward.x(2)}, rule), kNone,
          kNone};
}

}  // namespace trainer
