// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/optimizer_steps.h"

namespace trainer {
namespace {

double elements(const TensorSpec& spec) {
  return static_cast<double>(numel(spec.shape));
}

void describe_sgd(const SgdRule& rule, AttributeVisitor& visit) {
  visit("momentum", rule.momentum);
  visit("nesterov", rule.nesterov);
}

template <class Rule>
Rule with_decay(Rule rule, double decay) {
  rule.weight_decay = decay;
  return rule;
}

}  // namespace

void OptimizerStep::describe(AttributeVisitor& visit) const {
  describe_rule(visit);
  visit("weight_decay", weight_decay);
  visit("parameters", static_cast<int64_t>(parameters()));
}

std::vector<TensorSpec> OptimizerStep::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs.size() == input_of(parameters()),
         "takes lr, updates, scale, skip, and weights, gradient and moments of each parameter");
  std::vector<TensorSpec> outputs;
  for (size_t p = 0; p < parameters(); ++p) {
    const size_t first = input_of(p);
    for (size_t i = 1; i < 2 + moments; ++i) {
      expect(inputs[first + i] == inputs[first], "a parameter's tensors must have one shape");
    }
    outputs.insert(outputs.end(), 1 + moments, inputs[first]);
  }
  return outputs;
}

double OptimizerStep::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  double sum = 0;
  for (size_t p = 0; p < parameters(); ++p) sum += flops_per_element() * elements(inputs[input_of(p)]);
  return sum;
}

bool OptimizerStep::in_place(size_t input, size_t output) const {
  if (input < kFirstParameter) return false;
  const size_t parameter = output / (1 + moments), what = output % (1 + moments);
  return input == input_of(parameter) + (what == 0 ? 0 : 1 + what);
}

SgdRule Sgd::rule(size_t parameter) const {
  return with_decay(rule_, weight_decay[parameter]);
}

void Sgd::describe_rule(AttributeVisitor& visit) const {
  describe_sgd(rule_, visit);
}

SgdRule Lars::rule(size_t parameter) const {
  return with_decay(rule_, weight_decay[parameter]);
}

void Lars::describe_rule(AttributeVisitor& visit) const {
  describe_sgd(rule_, visit);
  visit("trust", trust);
  visit("eps", eps);
  visit("adapts", std::vector<int64_t>(adapts.begin(), adapts.end()), {.hidden = true});
}

AdamWRule AdamW::rule(size_t parameter) const {
  return with_decay(rule_, weight_decay[parameter]);
}

void AdamW::describe_rule(AttributeVisitor& visit) const {
  visit("betas", std::array{rule_.beta1, rule_.beta2});
  visit("eps", rule_.eps);
}

void ClipByNorm::describe(AttributeVisitor& visit) const {
  visit("max_norm", max_norm);
}

std::vector<TensorSpec> ClipByNorm::infer(std::span<const TensorSpec>) const {
  return {{.shape = {1}, .dtype = DType::f32}, {.shape = {1}, .dtype = DType::f32}};
}

double ClipByNorm::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  double sum = 0;
  for (const TensorSpec& gradient : inputs) sum += 2 * elements(gradient);
  return sum;
}

std::vector<TensorSpec> TableLookup::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs[1] == TensorSpec{{1}, DType::i32}, "needs an index");
  return {{.shape = {1}, .dtype = inputs[0].dtype}};
}

std::vector<TensorSpec> Increment::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs[0] == TensorSpec{{1}, DType::i32}, "needs a counter");
  expect(inputs.size() == 1 || inputs[1].shape.empty() || inputs[1] == TensorSpec{{1}, DType::f32},
         "needs one number that says whether to skip");
  return {inputs[0]};
}

}  // namespace trainer
