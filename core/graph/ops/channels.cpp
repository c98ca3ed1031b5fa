// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/channels.h"

namespace trainer {
namespace {

void expect_images(const Shape& x) {
  expect(x.size() == 4, "expected images (N, C, H, W), got " + to_string(x));
}

}  // namespace

std::vector<TensorSpec> ScaleChannels::infer(std::span<const TensorSpec> inputs) const {
  const Shape &x = inputs[kX].shape, &s = inputs[kFactors].shape;
  expect_images(x);
  expect_one_type(inputs, {kX, kFactors});
  expect(s == Shape{x[0], x[1], 1, 1},
         "expected one factor per channel for images " + to_string(x) + ", got " + to_string(s));
  return {inputs[kX]};
}

std::vector<TensorId> ScaleChannels::gradient(const Backward& backward) const {
  std::vector<TensorId> gradients(kInputs, kNone);
  const TensorId dy = backward.dy[kY];
  if (backward.wanted[kX]) gradients[kX] = backward.build.emit<ScaleChannels>({dy, backward.x(kFactors)});
  if (backward.wanted[kFactors])
    gradients[kFactors] = backward.build.emit<ScaleChannelsBackward>({dy, backward.x(kX)});
  return gradients;
}

std::vector<TensorSpec> ScaleChannelsBackward::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[kDy].shape;
  expect_images(x);
  expect(inputs[kDy] == inputs[kX], "the inputs must have one shape");
  return {{.shape = {x[0], x[1], 1, 1}, .dtype = inputs[kDy].dtype}};
}

double ScaleChannelsBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return 2.0 * static_cast<double>(numel(inputs[kDy].shape));
}

std::vector<TensorSpec> AddChannels::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[kX].shape;
  expect_images(x);
  expect_type(inputs, {kBias}, DType::f32);
  expect(inputs[kBias].shape == Shape{x[1]},
         "expected one number per channel of " + to_string(x) + ", got " + to_string(inputs[kBias].shape));
  return {inputs[kX]};
}

std::vector<ChannelLink> AddChannels::channel_links(std::span<const TensorSpec> /*inputs*/,
                                                    std::span<const TensorSpec> outputs) const {
  std::vector<ChannelLink> links = links_of_channels({kX}, outputs[kY].shape);
  links[0].places.push_back(channel_in(kBias, 0));
  return links;
}

std::vector<TensorId> AddChannels::gradient(const Backward& backward) const {
  const TensorId dy = backward.dy[kY];
  return {dy, backward.wanted[kBias] ? backward.build.emit<AddChannelsBackward>({dy}) : kNone};
}

std::vector<TensorSpec> AddChannelsBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_images(inputs[kDy].shape);
  return {{.shape = {inputs[kDy].shape[1]}, .dtype = DType::f32}};
}

double AddChannelsBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return static_cast<double>(numel(inputs[kDy].shape));
}

}  // namespace trainer
