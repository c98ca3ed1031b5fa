// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operation.h"

#include <fmt/format.h>

#include <stdexcept>

namespace trainer {

Shape Backward::shape(size_t i) const {
  return build.shape(node.inputs[i]);
}

std::vector<TensorId> Operation::gradient(const Backward& backward) const {
  return std::vector<TensorId>(backward.node.inputs.size(), kNone);
}

double Operation::flops(std::span<const TensorSpec> /*inputs*/, std::span<const TensorSpec> outputs) const {
  double elements = 0;
  for (const TensorSpec& spec : outputs) elements += static_cast<double>(numel(spec.shape));
  return elements;
}

InputRange Operation::in_place_inputs(size_t /*output*/, size_t inputs) const {
  return {0, inputs};
}

bool Operation::in_place(size_t /*input*/, size_t /*output*/) const {
  return false;
}

void describe(AttributeVisitor& visit, const Along& along) {
  visit("ranks", along.ranks);
  if (along.axis != Axis::shards) visit("axis", std::string(to_string(along.axis)));
}

void expect(bool holds, const std::string& text) {
  if (!holds) throw std::invalid_argument(text);
}

void expect_count(std::span<const TensorSpec> inputs, size_t count, const std::string& text) {
  expect(inputs.size() == count, text);
}

void expect_count(std::span<const TensorSpec> inputs, size_t count) {
  expect_count(inputs, count, fmt::format("needs {} inputs, absent ones among them", count));
}

void expect_one_type(std::span<const TensorSpec> inputs, std::initializer_list<size_t> which) {
  expect_type(inputs, which, inputs[*which.begin()].dtype);
}

void expect_type(std::span<const TensorSpec> inputs, std::initializer_list<size_t> which, DType dtype) {
  for (const size_t i : which) {
    if (!is_given(inputs[i]) || inputs[i].dtype == dtype) continue;
    expect(false,
           fmt::format("input {} must be {}, got {}", i, to_string(dtype), to_string(inputs[i].dtype)));
  }
}

}  // namespace trainer
