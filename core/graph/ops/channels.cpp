// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/channels.h"

namespace trainer {
namespace {

void expect_images(const Shape& x) {
  expect(x.size() == 4, "expected images (N, C, H, W), got " + to_string(x));
}

}  // namespace

std::vector<TensorSpec> ScaleChannels::infer(std::span<const TensorSpec> inputs) const {
  const Shape &x = inputs[0].shape, &s = inputs[1].shape;
  expect_images(x);
  expect_one_type(inputs, {0, 1});
  expect(s == Shape{x[0], x[1], 1, 1},
         "expected one factor per channel for images " + to_string(x) + ", got " + to_string(s));
  return {inputs[0]};
}

std::vector<TensorId> ScaleChannels::gradient(const Backward& backward) const {
  std::vector<TensorId> gradients(2, kNone);
  const TensorId dy = backward.dy[0];
  if (backward.wanted[0]) gradients[0] = backward.build.emit<ScaleChannels>({dy, backward.x(1)});
  if (backward.wanted[1]) gradients[1] = backward.build.emit<ScaleChannelsBackward>({dy, backward.x(0)});
  return gradients;
}

std::vector<TensorSpec> ScaleChannelsBackward::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[0].shape;
  expect_images(x);
  expect(inputs[0] == inputs[1], "the inputs must have one shape");
  return {{.shape = {x[0], x[1], 1, 1}, .dtype = inputs[0].dtype}};
}

double ScaleChannelsBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return 2.0 * static_cast<double>(numel(inputs[0].shape));
}

std::vector<TensorSpec> AddChannels::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[0].shape;
  expect_images(x);
  expect_type(inputs, {1}, DType::f32);
  expect(inputs[1].shape == Shape{x[1]},
         "expected one number per channel of " + to_string(x) + ", got " + to_string(inputs[1].shape));
  return {inputs[0]};
}

std::vector<TensorId> AddChannels::gradient(const Backward& backward) const {
  const TensorId dy = backward.dy[0];
  return {dy, backward.wanted[1] ? backward.build.emit<AddChannelsBackward>({dy}) : kNone};
}

std::vector<TensorSpec> AddChannelsBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_images(inputs[0].shape);
  return {{.shape = {inputs[0].shape[1]}, .dtype = DType::f32}};
}

double AddChannelsBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return static_cast<double>(numel(inputs[0].shape));
}

}  // namespace trainer
