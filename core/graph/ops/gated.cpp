// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/gated.h"

#include <fmt/format.h>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/unary.h"

namespace trainer {

Gated::Gated(elementwise::Function f) : function(f), name_(fmt::format("{}_gate", function_name(f))) {}

void Gated::describe(AttributeVisitor& visit) const {
  describe_parameters(function, visit);
}

std::vector<TensorSpec> Gated::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "takes two inputs");
  expect(inputs[kGate] == inputs[kX], "the inputs must have one shape, got " +
                                          to_string(inputs[kGate].shape) + " and " +
                                          to_string(inputs[kX].shape));
  return {inputs[kX]};
}

std::vector<TensorId> Gated::gradient(const Backward& backward) const {
  const TensorId dy = backward.dy[kY], gate = backward.x(kGate), x = backward.x(kX);
  if (!backward.wanted[kGate]) {
    const TensorId opened = backward.build.emit<Unary>({gate}, function);
    return {kNone, backward.build.emit<Binary>({dy, opened}, Binary::Kind::mul)};
  }
  return backward.build.emit_all(std::make_shared<GatedBackward>(function), {dy, gate, x});
}

GatedBackward::GatedBackward(elementwise::Function f)
    : function(f), name_(fmt::format("{}_gate_backward", function_name(f))) {}

void GatedBackward::describe(AttributeVisitor& visit) const {
  describe_parameters(function, visit);
}

std::vector<TensorSpec> GatedBackward::infer(std::span<const TensorSpec> inputs) const {
  const char* const text = "takes three inputs of one shape";
  expect_count(inputs, kInputs, text);
  expect(inputs[kDy] == inputs[kGate] && inputs[kDy] == inputs[kX], text);
  return {inputs[kGate], inputs[kX]};
}

}  // namespace trainer
