// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/loss_scale.h"

#include "core/graph/names.h"

namespace trainer {
namespace {

const TensorSpec kScalar{{1}, DType::f32}, kCountSpec{{1}, DType::i32};

TensorId counter(Program& program, const char* name) {
  return program.persistent(name, kCountSpec, Role::optimizer, {});
}

Initial filled(double value) {
  return {.kind = Initial::Kind::fill, .a = value, .b = 0, .table = {}};
}

}  // namespace

TensorId loss_scale(Program& program, const LossScaling& scaling) {
  return program.persistent(state_name::kLossScale, kScalar, Role::optimizer, filled(scaling.initial));
}
TensorId good_step_counter(Program& program) {
  return counter(program, state_name::kGoodSteps);
}
TensorId skipped_step_counter(Program& program) {
  return counter(program, state_name::kOverflows);
}
TensorId constant_one(Program& program) {
  return program.persistent(state_name::kOne, kScalar, Role::constant, filled(1));
}

void Unscale::describe(AttributeVisitor& visit) const {
  if (max_norm) visit("max_norm", *max_norm);
}

std::vector<TensorSpec> Unscale::infer(std::span<const TensorSpec> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) expect_type(inputs, {i}, DType::f32);
  return std::vector<TensorSpec>(max_norm ? 3 : 2, kScalar);
}

double Unscale::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  double sum = 0;
  for (const TensorSpec& gradient : inputs) sum += 2.0 * static_cast<double>(numel(gradient.shape));
  return sum;
}

std::vector<TensorSpec> MultiplyBy::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs[kFactor] == kScalar, "needs one factor");
  return {inputs[kX]};
}

void UpdateLossScale::describe(AttributeVisitor& visit) const {
  visit("initial", scaling.initial, {.hidden = true});
  visit("growth", scaling.growth);
  visit("backoff", scaling.backoff);
  visit("interval", scaling.interval);
  visit("smallest", scaling.smallest);
}

std::vector<TensorSpec> UpdateLossScale::infer(std::span<const TensorSpec> inputs) const {
  const char* const text = "takes a scale, two counters and the result of the check";
  expect_count(inputs, kInputs, text);
  expect(inputs[kScale] == kScalar && inputs[kGoodSteps] == kCountSpec && inputs[kSkipped] == kCountSpec &&
             inputs[kFound] == kScalar && (!is_given(inputs[kHeld]) || inputs[kHeld] == kScalar),
         text);
  return {kScalar, kCountSpec, kCountSpec};
}

}  // namespace trainer
