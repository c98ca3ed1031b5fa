// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/rearrange.h"

#include <fmt/format.h>

#include <utility>

#include "core/graph/ops/concat.h"

namespace trainer {

void Pad::describe(AttributeVisitor& visit) const {
  visit("axis", axis);
  visit("before", before);
  visit("after", after);
}

std::vector<TensorSpec> Pad::infer(std::span<const TensorSpec> inputs) const {
  TensorSpec y = inputs[kX];
  expect(axis >= 1 && axis < static_cast<int64_t>(y.shape.size()),
         fmt::format("axis {} is outside 1 to {}", axis, y.shape.size() - 1));
  expect(before >= 0 && after >= 0, "no fewer than no zeros can be added");
  y.shape[static_cast<size_t>(axis)] += before + after;
  return {y};
}

std::vector<TensorId> Pad::gradient(const Backward& backward) const {
  const int64_t length = backward.shape(kX)[static_cast<size_t>(axis)];
  return {backward.build.emit<Slice>({backward.dy[kY]}, axis, before, length)};
}

void Transpose::describe(AttributeVisitor& visit) const {
  visit("first", first);
  visit("second", second);
}

std::vector<TensorSpec> Transpose::infer(std::span<const TensorSpec> inputs) const {
  TensorSpec y = inputs[kX];
  expect(first >= 1 && first < second && second < static_cast<int64_t>(y.shape.size()),
         fmt::format("dimensions {} and {} cannot be exchanged in a shape of {}", first, second,
                     y.shape.size()));
  std::swap(y.shape[static_cast<size_t>(first)], y.shape[static_cast<size_t>(second)]);
  return {y};
}

std::vector<TensorId> Transpose::gradient(const Backward& backward) const {
  return {backward.build.emit<Transpose>({backward.dy[kY]}, first, second)};
}

TransposedSizes::TransposedSizes(const Transpose& op, const Shape& x)
    : a(x[static_cast<size_t>(op.first)]), b(x[static_cast<size_t>(op.second)]) {
  for (int64_t d = 0; d < static_cast<int64_t>(x.size()); ++d) {
    if (d == op.first || d == op.second) continue;
    int64_t& size = d < op.first ? outer : d < op.second ? middle : inner;
    size *= x[static_cast<size_t>(d)];
  }
}

std::vector<TensorSpec> RepeatSamples::infer(std::span<const TensorSpec> inputs) const {
  TensorSpec y = inputs[kX];
  expect(!y.shape.empty() && y.shape[0] == 1, "expected one sample, got shape " + to_string(y.shape));
  y.shape[0] = samples;
  return {y};
}

std::vector<ChannelLink> RepeatSamples::channel_links(std::span<const TensorSpec>,
                                                      std::span<const TensorSpec> outputs) const {
  std::vector<ChannelLink> links = links_of_elements({kX}, outputs[kY].shape);
  links.erase(links.begin());  // samples
  return links;
}

std::vector<TensorId> RepeatSamples::gradient(const Backward& backward) const {
  return {backward.build.emit<SumSamples>({backward.dy[kY]})};
}

std::vector<TensorSpec> SumSamples::infer(std::span<const TensorSpec> inputs) const {
  Shape dx = inputs[kDy].shape;
  dx[0] = 1;
  return {{.shape = dx, .dtype = DType::f32}};
}

double SumSamples::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return static_cast<double>(numel(inputs[kDy].shape));
}

}  // namespace trainer
