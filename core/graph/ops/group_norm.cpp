// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/group_norm.h"

#include <fmt/format.h>

namespace trainer {
namespace {

/// Operations on each element of x, here and in the gradient: subtract, scale,
/// add; the sums cost about the same again.
constexpr double kGroupNormFlops = 8, kGroupNormBackwardFlops = 12;

}  // namespace

void GroupNorm::describe(AttributeVisitor& visit) const {
  visit("groups", groups);
  visit("eps", eps, {.digits = 6});
}

std::vector<TensorSpec> GroupNorm::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  const Shape& x = inputs[kX].shape;
  expect(x.size() == 4, "expected images (N, C, H, W), got " + to_string(x));
  expect(groups >= 1 && x[1] % groups == 0, fmt::format("{} groups do not divide {} channels", groups, x[1]));
  for (const size_t i : {kGamma, kBeta}) {
    expect(
        inputs[i].shape.empty() || inputs[i].shape == Shape{x[1]},
        fmt::format("expected one number for each of {} channels, got {}", x[1], to_string(inputs[i].shape)));
  }
  expect(inputs[kBeta].shape.empty() || !inputs[kGamma].shape.empty(), "a bias needs weights");
  expect_type(inputs, {kGamma, kBeta}, DType::f32);
  const TensorSpec statistic{.shape = {x[0], groups}, .dtype = DType::f32};
  return {inputs[kX], statistic, statistic};
}

std::vector<TensorId> GroupNorm::gradient(const Backward& backward) const {
  return backward.build.emit_all(
      std::make_shared<GroupNormBackward>(groups),
      {backward.dy[kY], backward.x(kX), backward.x(kGamma), backward.y(kMean), backward.y(kFactor)});
}

std::vector<ChannelLink> GroupNorm::channel_links(std::span<const TensorSpec> /*inputs*/,
                                                  std::span<const TensorSpec> outputs) const {
  if (groups != outputs[kY].shape[1]) return {};
  std::vector<ChannelLink> links = links_of_channels({kX}, outputs[kY].shape);
  for (const size_t i : {kMean, kFactor}) links[0].places.push_back(channel_out(i, 1));
  links[0].places.push_back(channel_in(kGamma, 0));
  links[0].places.push_back(channel_in(kBeta, 0));
  return links;
}

double GroupNorm::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kGroupNormFlops * static_cast<double>(numel(inputs[kX].shape));
}

void GroupNormBackward::describe(AttributeVisitor& visit) const {
  visit("groups", groups);
}

std::vector<TensorSpec> GroupNormBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_one_type(inputs, {kDy, kX});
  expect_type(inputs, {kGamma, kMean, kFactor}, DType::f32);
  const TensorSpec of_channels{.shape = {inputs[kX].shape[1]}, .dtype = DType::f32};
  return {inputs[kX], of_channels, of_channels};
}

double GroupNormBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kGroupNormBackwardFlops * static_cast<double>(numel(inputs[kX].shape));
}

}  // namespace trainer
