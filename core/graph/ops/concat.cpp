// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/concat.h"

#include <fmt/format.h>

#include "core/graph/ops/rearrange.h"

namespace trainer {

std::vector<TensorSpec> Concat::infer(std::span<const TensorSpec> inputs) const {
  expect(!inputs.empty(), "needs at least one input");
  TensorSpec y = inputs[0];
  const auto along = static_cast<size_t>(axis);
  expect(axis >= 0 && along < y.shape.size(),
         fmt::format("axis {} is outside 0 to {}", axis, y.shape.size() - 1));
  y.shape[along] = 0;
  for (const TensorSpec& input : inputs) {
    TensorSpec rest = input;
    expect(rest.shape.size() == y.shape.size(), "the inputs must have one number of dimensions");
    y.shape[along] += rest.shape[along];
    rest.shape[along] = inputs[0].shape[along];
    expect(rest == inputs[0], fmt::format("inputs of shape {} and {} differ outside axis {}",
                                          to_string(inputs[0].shape), to_string(input.shape), axis));
  }
  return {y};
}

std::vector<TensorId> Concat::gradient(const Backward& backward) const {
  std::vector<TensorId> gradients;
  int64_t begin = 0;
  for (size_t i = 0; i < backward.node.inputs.size(); ++i) {
    const int64_t length = backward.shape(i)[static_cast<size_t>(axis)];
    gradients.push_back(
        backward.wanted[i] ? backward.build.emit<Slice>({backward.dy[kY]}, axis, begin, length) : kNone);
    begin += length;
  }
  return gradients;
}

std::vector<ChannelLink> Concat::channel_links(std::span<const TensorSpec> inputs,
                                               std::span<const TensorSpec> outputs) const {
  std::vector<ChannelLink> links;
  const auto along = static_cast<size_t>(axis);
  const Shape& y = outputs[kY].shape;
  for (size_t d = 0; d < y.size(); ++d) {
    if (d == along) continue;
    ChannelLink& link = links.emplace_back(ChannelLink{.channels = y[d], .places = {channel_out(kY, d)}});
    for (size_t i = 0; i < inputs.size(); ++i) link.places.push_back(channel_in(i, d));
  }
  int64_t begin = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t length = inputs[i].shape[along];
    ChannelPlace part = channel_out(kY, along);
    part.begin = begin;
    part.length = length;
    links.push_back({.channels = length, .places = {part, channel_in(i, along)}});
    begin += length;
  }
  return links;
}

void Slice::describe(AttributeVisitor& visit) const {
  visit("axis", axis);
  visit("begin", begin);
  visit("length", length);
}

std::vector<TensorSpec> Slice::infer(std::span<const TensorSpec> inputs) const {
  TensorSpec y = inputs[kX];
  expect(axis >= 0 && axis < static_cast<int64_t>(y.shape.size()),
         fmt::format("axis {} is outside 0 to {}", axis, y.shape.size() - 1));
  int64_t& size = y.shape[static_cast<size_t>(axis)];
  expect(
      begin >= 0 && length >= 1 && begin + length <= size,
      fmt::format("[{}, {}) is not part of the {} indices along axis {}", begin, begin + length, size, axis));
  size = length;
  return {y};
}

std::vector<TensorId> Slice::gradient(const Backward& backward) const {
  const int64_t size = backward.shape(kX)[static_cast<size_t>(axis)];
  return {backward.build.emit<Pad>({backward.dy[kY]}, axis, begin, size - begin - length)};
}

}  // namespace trainer
