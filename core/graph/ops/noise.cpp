// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/noise.h"

#include <fmt/format.h>

namespace trainer {

void noise::Gaussian::describe(AttributeVisitor& visit) const {
  visit("std", std);
  visit("clips", clips);
}

void noise::SaltAndPepper::describe(AttributeVisitor& visit) const {
  visit("share", share);
}

std::string_view Noise::name() const {
  return std::visit([](const auto& how) { return how.kName; }, rule);
}

void Noise::describe(AttributeVisitor& visit) const {
  std::visit([&](const auto& how) { how.describe(visit); }, rule);
  visit("key", fmt::format("{:016x}", key));
}

std::vector<TensorSpec> Noise::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[kX].shape;
  expect(x.size() == 4, "expected images (N, C, H, W), got " + to_string(x));
  expect_type(inputs, {kX}, DType::f32);
  expect(inputs[kSample] == TensorSpec{{x[0]}, DType::i32}, "needs one index per sample");
  expect(!is_given(inputs[kStep]) || inputs[kStep] == TensorSpec{{1}, DType::i32}, "needs the step, or none");
  const TensorSpec numbers{{x[1]}, DType::f32};
  expect(inputs[kScale] == numbers && inputs[kOffset] == numbers,
         "expected a scale and an offset for each channel");
  return {inputs[kX]};
}

double Noise::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  constexpr double kOfElement = 50;  // ten rounds of Philox for four elements, and half of a pair of normals
  return kOfElement * static_cast<double>(numel(inputs[kX].shape));
}

}  // namespace trainer
