// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/binary.h"

#include <cmath>

#include "core/graph/ops/unary.h"

namespace trainer {

void Binary::describe(AttributeVisitor& visit) const {
  if (!relu) return;
  visit("relu", relu);
  if (std::isfinite(ceiling)) visit("ceiling", ceiling);
}

std::vector<TensorSpec> Binary::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "takes two inputs");
  expect(inputs[kA] == inputs[kB], "the inputs must have one shape, got " + to_string(inputs[kA].shape) +
                                       " and " + to_string(inputs[kB].shape));
  return {inputs[kA]};
}

std::vector<TensorId> Binary::gradient(const Backward& backward) const {
  TensorId dy = backward.dy[kY];
  if (relu) {
    const elementwise::Function clamp = std::isfinite(ceiling) ? elementwise::Function(elementwise::Relu6{})
                                                               : elementwise::Function(elementwise::Relu{});
    dy = backward.build.emit<UnaryBackward>({dy, backward.y(kY)}, clamp);
  }
  if (kind == Kind::add) return {dy, dy};
  std::vector<TensorId> dx(kInputs, kNone);
  for (const auto& [one, other] : {std::pair{kA, kB}, std::pair{kB, kA}}) {  // d(a * b)/da = b
    if (backward.wanted[one]) dx[one] = backward.build.emit<Binary>({dy, backward.x(other)}, Kind::mul);
  }
  return dx;
}

}  // namespace trainer
