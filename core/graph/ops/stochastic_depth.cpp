// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/stochastic_depth.h"

namespace trainer {

void StochasticDepth::describe(AttributeVisitor& visit) const {
  settings.describe(visit);
}

std::vector<TensorSpec> StochasticDepth::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs[kSample] == TensorSpec{{inputs[kX].shape[0]}, DType::i32}, "needs one index per sample");
  expect(inputs[kStep] == TensorSpec{{1}, DType::i32}, "needs the step");
  return {inputs[kX]};
}

std::vector<TensorId> StochasticDepth::gradient(const Backward& backward) const {
  return {backward.build.emit<StochasticDepth>({backward.dy[kY], backward.x(kSample), backward.x(kStep)},
                                               settings),
          kNone, kNone};
}

}  // namespace trainer
