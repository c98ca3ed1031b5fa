// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/dropout.h"

#include <fmt/format.h>

namespace trainer {

void DropoutSettings::describe(AttributeVisitor& visit) const {
  visit("p", p);
  visit("key", fmt::format("{:016x}", key));
}

void Dropout::describe(AttributeVisitor& visit) const {
  settings.describe(visit);
}

std::vector<TensorSpec> Dropout::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs[kSample] == TensorSpec{{inputs[kX].shape[0]}, DType::i32}, "needs one index per sample");
  expect(inputs[kStep] == TensorSpec{{1}, DType::i32}, "needs the step");
  return {inputs[kX]};
}

std::vector<TensorId> Dropout::gradient(const Backward& backward) const {
  return {backward.build.emit<Dropout>({backward.dy[kY], backward.x(kSample), backward.x(kStep)}, settings),
          kNone, kNone};
}

}  // namespace trainer
