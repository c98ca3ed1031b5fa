// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/all_gather.h"

#include "core/graph/ops/own_part.h"

namespace trainer {
namespace {

void expect_parts(const Along& along, const Shape& part, const Shape& whole) {
  expect(along.ranks > 0 && numel(part) > 0 && numel(whole) <= along.ranks * numel(part),
         "the parts of all ranks hold less than the whole");
}

}  // namespace

void AllGather::describe(AttributeVisitor& visit) const {
  trainer::describe(visit, along);
  visit("whole", whole, {.hidden = true});
  if (work == Work::repeated) visit("work", std::string("repeated"));
}

std::vector<TensorSpec> AllGather::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "needs one part");
  expect(is_floating(inputs[kPart].dtype), "takes floating point numbers");
  expect_parts(along, inputs[kPart].shape, whole);
  return {{.shape = whole, .dtype = inputs[kPart].dtype}};
}

std::vector<TensorId> AllGather::gradient(const Backward& backward) const {
  const Shape part = backward.shape(kPart);
  if (work == Work::repeated) return {backward.build.emit<OwnPart>({backward.dy[kWhole]}, along, part)};
  const TensorId dy = as_type(backward.build, backward.dy[kWhole], DType::f32);
  const TensorId sum = backward.build.emit<ReduceScatter>({dy}, along, part);
  // Of a parameter's part, which was cast before it travelled, the sum stays f32: Cast::gradient passes it
  // on.
  const bool is_parameter = along.axis == Axis::shards;
  return {is_parameter
              ? sum
              : as_type(backward.build, sum, backward.build.program().spec(backward.x(kPart)).dtype)};
}

void ReduceScatter::describe(AttributeVisitor& visit) const {
  trainer::describe(visit, along);
  visit("part", part, {.hidden = true});
}

std::vector<TensorSpec> ReduceScatter::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "needs one tensor");
  expect_type(inputs, {kWhole}, DType::f32);
  expect_parts(along, part, inputs[kWhole].shape);
  return {{.shape = part, .dtype = DType::f32}};
}

std::vector<TensorId> ReduceScatter::gradient(const Backward& backward) const {
  return {backward.build.emit<AllGather>({backward.dy[kPart]}, along, backward.shape(kWhole))};
}

void AllReduce::describe(AttributeVisitor& visit) const {
  trainer::describe(visit, along);
}

std::vector<TensorSpec> AllReduce::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "needs one tensor");
  expect_type(inputs, {kX}, DType::f32);
  return {inputs[kX]};
}

std::vector<TensorSpec> AllGatherStart::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, wholes.size(), "needs a shape for each part");
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < inputs.size(); ++i) specs.push_back({.shape = wholes[i], .dtype = inputs[i].dtype});
  return specs;
}

std::vector<TensorSpec> ReduceScatterStart::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, parts.size(), "needs a shape for each tensor");
  std::vector<TensorSpec> specs;
  for (const Shape& part : parts) specs.push_back({.shape = part, .dtype = DType::f32});
  return specs;
}

}  // namespace trainer
