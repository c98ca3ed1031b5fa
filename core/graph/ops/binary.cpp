// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/binary.h"

namespace trainer {

std::vector<TensorSpec> Binary::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs.size() == 2, "takes two inputs");
  expect(inputs[0] == inputs[1], "the inputs must have one shape, got " + to_string(inputs[0].shape) +
                                     " and " + to_string(inputs[1].shape));
  return {inputs[0]};
}

std::vector<TensorId> Binary::gradient(const Backward& backward) const {
  const TensorId dy = backward.dy[0];
  if (kind == Kind::add) return {dy, dy};
  std::vector<TensorId> dx(2, kNone);
  for (size_t i = 0; i < 2; ++i) {  // d(a * b)/da = b
    if (backward.wanted[i]) dx[i] = backward.build.emit<Binary>({dy, backward.x(1 - i)}, Kind::mul);
  }
  return dx;
}

}  // namespace trainer
