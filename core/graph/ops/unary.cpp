// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/unary.h"

#include <fmt/format.h>

#include <stdexcept>

namespace trainer {
namespace {

/// Reports a functor's parameters; replaces the recipe's parser here.
struct ParameterReporter {
  AttributeVisitor& visit;
  void add(const char* name, const double* value, const char* /*help*/) { visit(name, *value); }
};

template <class... Functors>
std::vector<elementwise::Function> all_functions(const std::variant<Functors...>*) {
  return {elementwise::Function(Functors{})...};
}
std::vector<elementwise::Function> all_functions() {
  return all_functions(static_cast<const elementwise::Function*>(nullptr));
}

}  // namespace

void describe_parameters(elementwise::Function function, AttributeVisitor& visit) {
  ParameterReporter reporter{visit};
  std::visit([&](auto& f) { f.declare(reporter); }, function);
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const elementwise::Function& function : all_functions()) names.emplace_back(function_name(function));
  return names;
}

elementwise::Function function_named(std::string_view name) {
  for (const elementwise::Function& function : all_functions()) {
    if (function_name(function) == name) return function;
  }
  throw std::logic_error(fmt::format("no element-wise function is named {}", name));
}

std::string_view function_name(const elementwise::Function& function) {
  return std::visit([](const auto& f) -> std::string_view { return f.kName; }, function);
}

elementwise::Reads gradient_reads(const elementwise::Function& function) {
  return std::visit([](const auto& f) { return f.kGradientReads; }, function);
}

bool Unary::is_non_negative(const std::vector<bool>& /*inputs*/) const {
  return std::visit(
      [](const auto& f) {
        return requires {
          f.kIsNonNegative;
        };
      },
      function);
}

std::string_view Unary::name() const {
  return function_name(function);
}
void Unary::describe(AttributeVisitor& visit) const {
  describe_parameters(function, visit);
}

std::vector<TensorSpec> Unary::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "takes one input");
  return {inputs[kX]};
}

std::vector<TensorId> Unary::gradient(const Backward& backward) const {
  const TensorId saved = gradient_reads(function) == elementwise::Reads::y ? backward.y(kY) : backward.x(kX);
  return {backward.build.emit<UnaryBackward>({backward.dy[kY], saved}, function)};
}

UnaryBackward::UnaryBackward(elementwise::Function f)
    : function(f), name_(std::string(function_name(f)) + "_backward") {}

void UnaryBackward::describe(AttributeVisitor& visit) const {
  describe_parameters(function, visit);
}

std::vector<TensorSpec> UnaryBackward::infer(std::span<const TensorSpec> inputs) const {
  const char* const text = "takes two inputs of one shape";
  expect_count(inputs, kInputs, text);
  expect(inputs[kDy] == inputs[kSaved], text);
  return {inputs[kDy]};
}

}  // namespace trainer
