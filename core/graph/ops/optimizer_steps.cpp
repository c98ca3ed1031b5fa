// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/optimizer_steps.h"

#include <algorithm>

namespace trainer {
namespace {

double elements(const TensorSpec& spec) {
  return static_cast<double>(numel(spec.shape));
}

/// Reports a rule's parameters; replaces the recipe's parser here.
class RuleReporter {
 public:
  explicit RuleReporter(AttributeVisitor& visit) : visit_(visit) {}
  template <class T>
  RuleReporter& add(const char* name, const T* value, const char* /*help*/) {
    visit_(name, *value);
    return *this;
  }
  RuleReporter& at_least(double) { return *this; }
  RuleReporter& above(double) { return *this; }
  RuleReporter& at_most(double) { return *this; }
  RuleReporter& below(double) { return *this; }

 private:
  AttributeVisitor& visit_;
};

}  // namespace

OptimizerStep::OptimizerStep(update::Rule how, std::vector<ParameterSettings> of_parameters)
    : rule(how),
      moments(std::visit([](const auto& one) { return one.moments().size(); }, how)),
      settings(std::move(of_parameters)) {}

std::string_view OptimizerStep::name() const {
  return std::visit([](const auto& one) { return std::string_view(one.kName); }, rule);
}

void OptimizerStep::describe(AttributeVisitor& visit) const {
  RuleReporter reporter(visit);
  std::visit([&](auto one) { one.declare(reporter); }, rule);
  std::vector<int64_t> adapting;
  std::vector<double> decays, factors;
  for (const ParameterSettings& setting : settings) {
    adapting.push_back(setting.adapts ? 1 : 0);
    decays.push_back(setting.weight_decay);
    factors.push_back(setting.lr_factor);
  }
  if (std::visit([](const auto& one) { return one.kAdapts; }, rule))
    visit("adapts", adapting, {.hidden = true});
  visit("weight_decay", decays);
  visit("lr_factor", factors,
        {.hidden = std::ranges::all_of(factors, [](double factor) { return factor == 1; })});
  visit("parameters", static_cast<int64_t>(parameters()));
}

std::vector<TensorSpec> OptimizerStep::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, input_of(parameters()),
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
  const double each = std::visit([](const auto& one) { return one.kFlops; }, rule);
  double sum = 0;
  for (size_t p = 0; p < parameters(); ++p) sum += each * elements(inputs[input_of(p)]);
  return sum;
}

InputRange OptimizerStep::in_place_inputs(size_t output, size_t) const {
  const size_t parameter = output / (1 + moments);
  return {input_of(parameter), input_of(parameter + 1)};
}

bool OptimizerStep::in_place(size_t input, size_t output) const {
  if (input < kFirstParameter) return false;
  const size_t parameter = output / (1 + moments), what = output % (1 + moments);
  return input == input_of(parameter) + (what == 0 ? 0 : 1 + what);
}

void ClipByNorm::describe(AttributeVisitor& visit) const {
  visit("max_norm", max_norm);
  visit("eps", eps, {.hidden = eps == 1e-6});
  visit("lengthens", lengthens);
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
  expect(inputs[kIndex] == TensorSpec{{1}, DType::i32}, "needs an index");
  return {{.shape = {1}, .dtype = inputs[kTable].dtype}};
}

std::vector<TensorSpec> Increment::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect(inputs[kCounter] == TensorSpec{{1}, DType::i32}, "needs a counter");
  expect(!is_given(inputs[kSkip]) || inputs[kSkip] == TensorSpec{{1}, DType::f32},
         "needs one number that says whether to skip");
  return {inputs[kCounter]};
}

}  // namespace trainer
