// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/fake_quantize.h"

#include <fmt/format.h>

#include <stdexcept>

namespace trainer {
namespace {

void expect_bits(int64_t bits) {
  expect(bits >= kLeastBits && bits <= kMostBits,
         fmt::format("numbers have {} to {} bits, got {}", kLeastBits, kMostBits, bits));
}

void expect_step(const TensorSpec& step) {
  expect(!is_given(step) || step == TensorSpec{{1}, DType::i32}, "the step is one whole number");
}

}  // namespace

void FakeQuantizeWeights::describe(AttributeVisitor& visit) const {
  visit("bits", levels.bits);
  visit("per_tensor", levels.per_tensor);
  visit("power_of_two", levels.power_of_two);
  visit("begin", begin.step, {.hidden = begin.step == 0});
}

std::vector<TensorSpec> FakeQuantizeWeights::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_type(inputs, {kWeight}, DType::f32);
  expect_step(inputs[kStep]);
  expect_bits(levels.bits);
  return {inputs[kWeight]};
}

void FakeQuantize::describe(AttributeVisitor& visit) const {
  visit("bits", levels.bits);
  visit("power_of_two", levels.power_of_two);
  visit("moves", moves);
  visit("begin", begin.step, {.hidden = begin.step == 0});
}

std::vector<TensorSpec> FakeQuantize::infer(std::span<const TensorSpec> inputs) const {
  const TensorSpec ends{.shape = {2}, .dtype = DType::f32};
  expect_count(inputs, kInputs);
  expect_type(inputs, {kX}, DType::f32);
  expect(inputs[kRange] == ends, "a range is two numbers of f32");
  expect_step(inputs[kStep]);
  expect_bits(levels.bits);
  if (!moves) return {inputs[kX]};
  return {inputs[kX], ends};
}

std::vector<TensorId> FakeQuantize::gradient(const Backward& backward) const {
  if (!moves) throw std::logic_error("a fixed range clips values, whose gradient is not known");
  return {backward.dy[kY], kNone, kNone};
}

}  // namespace trainer
