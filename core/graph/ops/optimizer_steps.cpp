// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/optimizer_steps.h"

#include <fmt/format.h>

namespace trainer {
namespace {

double elements(const TensorSpec& spec) {
  return static_cast<double>(numel(spec.shape));
}

void expect_same(std::span<const TensorSpec> inputs, size_t count) {
  for (size_t i = 1; i < count; ++i) {
    expect(inputs[i].shape.empty() || inputs[i] == inputs[0], "a parameter's tensors must have one shape");
  }
}

std::string sgd_text(const SgdRule& rule) {
  return fmt::format("momentum={} weight_decay={}{}", rule.momentum, rule.weight_decay,
                     rule.nesterov ? " nesterov" : "");
}

std::vector<TensorSpec> sgd_outputs(std::span<const TensorSpec> inputs) {
  expect(inputs.size() == 5, "takes w, g, m, lr and scale");
  expect_same(inputs, 3);
  std::vector<TensorSpec> outputs{inputs[0]};
  if (!inputs[2].shape.empty()) outputs.push_back(inputs[2]);
  return outputs;
}

}  // namespace

std::string Sgd::attributes() const {
  return sgd_text(rule);
}

std::vector<TensorSpec> Sgd::infer(std::span<const TensorSpec> inputs) const {
  return sgd_outputs(inputs);
}

double Sgd::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return 6 * elements(inputs[0]);
}

bool Sgd::in_place(size_t input, size_t output) const {
  return (input == 0 && output == 0) || (input == 2 && output == 1);
}

std::string Lars::attributes() const {
  return fmt::format("{} trust={} eps={}", sgd_text(rule), trust, eps);
}

std::vector<TensorSpec> Lars::infer(std::span<const TensorSpec> inputs) const {
  return sgd_outputs(inputs);
}

double Lars::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return 10 * elements(inputs[0]);
}

bool Lars::in_place(size_t input, size_t output) const {
  return (input == 0 && output == 0) || (input == 2 && output == 1);
}

std::string AdamW::attributes() const {
  return fmt::format("betas=({}, {}) eps={} weight_decay={}", rule.beta1, rule.beta2, rule.eps,
                     rule.weight_decay);
}

std::vector<TensorSpec> AdamW::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs.size() == 7, "takes w, g, m, v, lr, updates and scale");
  expect_same(inputs, 4);
  return {inputs[0], inputs[2], inputs[3]};
}

double AdamW::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return 14 * elements(inputs[0]);
}

bool AdamW::in_place(size_t input, size_t output) const {
  return (input == 0 && output == 0) || (input == output + 1 && output >= 1);
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
  return {inputs[0]};
}

}  // namespace trainer
