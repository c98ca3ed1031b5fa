// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/element_loss.h"

#include <fmt/format.h>

namespace trainer {
namespace {

double rule_flops(const element_loss::Rule& rule, const TensorSpec& x) {
  return std::visit([](auto r) { return r.kFlops; }, rule) * static_cast<double>(numel(x.shape));
}

}  // namespace

std::string_view ElementLoss::name() const {
  return std::visit([](auto r) { return r.kName; }, rule);
}

std::vector<TensorSpec> ElementLoss::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  const Shape &x = inputs[kX].shape, &targets = inputs[kTargets].shape;
  expect_one_type(inputs, {kX, kTargets});
  expect_type(inputs, {kWeights}, DType::f32);
  expect(x.size() > 1, "expected outputs (N, ...), got " + to_string(x));
  expect(targets == x,
         fmt::format("needs a target for each output, got {} for {}", to_string(targets), to_string(x)));
  expect(inputs[kWeights].shape == Shape{x[0]}, "needs one weight per sample");
  if (is_given(inputs[kPositive])) {
    expect(x.size() == 2 && inputs[kPositive].shape == Shape{x[1]},
           fmt::format("needs a weight for each of {} outputs, got {}", x[1],
                       to_string(inputs[kPositive].shape)));
  }
  return {{.shape = {1}, .dtype = DType::f32}};
}

std::vector<TensorId> ElementLoss::gradient(const Backward& backward) const {
  std::vector<TensorId> inputs = backward.node.inputs, gradients(kInputs, kNone);
  inputs.insert(inputs.begin(), backward.dy[kLoss]);
  gradients[kX] = backward.build.emit<ElementLossBackward>(inputs, rule);
  return gradients;
}

double ElementLoss::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return rule_flops(rule, inputs[kX]);
}

std::string_view ElementLossBackward::name() const {
  return std::visit([](auto r) { return r.kBackwardName; }, rule);
}

std::vector<TensorSpec> ElementLossBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  return {inputs[kX]};
}

double ElementLossBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return rule_flops(rule, inputs[kX]);
}

}  // namespace trainer
