// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/binary.h"

namespace trainer {

std::vector<TensorSpec> Binary::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "takes two inputs");
  expect(inputs[kA] == inputs[kB], "the inputs must have one shape, got " + to_string(inputs[kA].shape) +
                                       " and " + to_string(inputs[kB].shape));
  return {inputs[kA]};
}

std::vector<TensorId> Binary::gradient(const Backward& backward) const {
  const TensorId dy = backward.dy[kY];
  if (kind == Kind::add) return {dy, dy};
  std::vector<TensorId> dx(kInputs, kNone);
  for (const auto& [one, other] : {std::pair{kA, kB}, std::pair{kB, kA}}) {  // d(a * b)/da = b
    if (backward.wanted[one]) dx[one] = backward.build.emit<Binary>({dy, backward.x(other)}, Kind::mul);
  }
  return dx;
}

}  // namespace trainer
