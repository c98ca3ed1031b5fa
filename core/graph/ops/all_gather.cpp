// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/all_gather.h"

#include "core/graph/ops/cast.h"

namespace trainer {
namespace {

void expect_parts(int64_t ranks, int64_t part, const Shape& whole) {
  expect(ranks > 0 && part > 0 && numel(whole) <= ranks * part,
         "the parts of all ranks hold less than the whole");
}

}  // namespace

void AllGather::describe(AttributeVisitor& visit) const {
  visit("ranks", ranks);
  visit("whole", whole, {.hidden = true});
}

std::vector<TensorSpec> AllGather::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "needs one part");
  const TensorSpec& part = inputs[kPart];
  expect(is_floating(part.dtype) && part.shape.size() == 1, "takes a list of floating point numbers");
  expect_parts(ranks, part.shape[0], whole);
  return {{.shape = whole, .dtype = part.dtype}};
}

/// Gradients are added up in f32, whatever type was gathered.
std::vector<TensorId> AllGather::gradient(const Backward& backward) const {
  TensorId dy = backward.dy[kWhole];
  if (backward.build.program().spec(dy).dtype != DType::f32) dy = backward.build.emit<Cast>({dy}, DType::f32);
  return {backward.build.emit<ReduceScatter>({dy}, ranks, backward.shape(kPart)[0])};
}

void ReduceScatter::describe(AttributeVisitor& visit) const {
  visit("ranks", ranks);
  visit("part", part, {.hidden = true});
}

std::vector<TensorSpec> ReduceScatter::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "needs one tensor");
  expect_type(inputs, {kWhole}, DType::f32);
  expect_parts(ranks, part, inputs[kWhole].shape);
  return {{.shape = {part}, .dtype = DType::f32}};
}

std::vector<TensorId> ReduceScatter::gradient(const Backward& backward) const {
  return {backward.build.emit<AllGather>({backward.dy[kPart]}, ranks, backward.shape(kWhole))};
}

std::vector<TensorSpec> AllGatherStart::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, wholes.size(), "needs a shape for each part");
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < inputs.size(); ++i) specs.push_back({.shape = wholes[i], .dtype = inputs[i].dtype});
  return specs;
}

std::vector<TensorSpec> ReduceScatterStart::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, parts.size(), "needs a length for each tensor");
  std::vector<TensorSpec> specs;
  for (const int64_t part : parts) specs.push_back({.shape = {part}, .dtype = DType::f32});
  return specs;
}

}  // namespace trainer
