// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/optimizer_steps.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainer {
namespace {

double elements(const TensorSpec& spec) {
  return static_cast<double>(numel(spec.shape));
}

std::string sgd_text(const SgdRule& rule) {
  return fmt::format("momentum={}{}", rule.momentum, rule.nesterov ? " nesterov" : "");
}

/// "0.1", or "0.1 and 0" where parameters differ.
std::string decays_text(const std::vector<double>& decays) {
  std::vector<double> different;
  for (double decay : decays) {
    if (std::find(different.begin(), different.end(), decay) == different.end()) different.push_back(decay);
  }
  return fmt::format("{}", fmt::join(different, " and "));
}

template <class Rule>
Rule with_decay(Rule rule, double decay) {
  rule.weight_decay = decay;
  return rule;
}

}  // namespace

std::string OptimizerStep::attributes() const {
  return fmt::format("{} weight_decay={} parameters={}", rule_text(), decays_text(weight_decay),
                     parameters());
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

std::string Sgd::rule_text() const {
  return sgd_text(rule_);
}

SgdRule Lars::rule(size_t parameter) const {
  return with_decay(rule_, weight_decay[parameter]);
}

std::string Lars::rule_text() const {
  return fmt::format("{} trust={} eps={}", sgd_text(rule_), trust, eps);
}

AdamWRule AdamW::rule(size_t parameter) const {
  return with_decay(rule_, weight_decay[parameter]);
}

std::string AdamW::rule_text() const {
  return fmt::format("betas=({}, {}) eps={}", rule_.beta1, rule_.beta2, rule_.eps);
}

std::string ClipByNorm::attributes() const {
  return fmt::format("max_norm={}", max_norm);
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
