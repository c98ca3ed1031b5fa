// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/own_part.h"

#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/cast.h"

namespace trainer {
namespace {

std::vector<TensorSpec> as_input(std::span<const TensorSpec> inputs) {
  expect_count(inputs, 1, "needs one tensor");
  expect(is_floating(inputs[0].dtype), "takes floating point numbers");
  return {inputs[0]};
}

}  // namespace

TensorId as_type(Builder& build, TensorId x, DType dtype) {
  return build.program().spec(x).dtype == dtype ? x : build.emit<Cast>({x}, dtype);
}

void OwnPart::describe(AttributeVisitor& visit) const {
  trainer::describe(visit, along);
  visit("part", part, {.hidden = true});
}

std::vector<TensorSpec> OwnPart::infer(std::span<const TensorSpec> inputs) const {
  const TensorSpec whole = as_input(inputs)[0];
  expect(numel(whole.shape) <= along.ranks * numel(part), "the parts of all ranks hold less than the whole");
  return {{.shape = part, .dtype = whole.dtype}};
}

std::vector<TensorId> OwnPart::gradient(const Backward& backward) const {
  return {
      backward.build.emit<AllGather>({backward.dy[kPart]}, along, backward.shape(kWhole), Work::repeated)};
}

void OnFirstRank::describe(AttributeVisitor& visit) const {
  trainer::describe(visit, along);
}

std::vector<TensorSpec> OnFirstRank::infer(std::span<const TensorSpec> inputs) const {
  return as_input(inputs);
}

std::vector<TensorId> OnFirstRank::gradient(const Backward& backward) const {
  return {backward.dy[kY]};
}

void SharedWork::describe(AttributeVisitor& visit) const {
  trainer::describe(visit, along);
}

std::vector<TensorSpec> SharedWork::infer(std::span<const TensorSpec> inputs) const {
  return as_input(inputs);
}

/// Added up in f32, whatever type x has.
std::vector<TensorId> SharedWork::gradient(const Backward& backward) const {
  const DType dtype = backward.build.program().spec(backward.x(kX)).dtype;
  const TensorId dy = as_type(backward.build, backward.dy[kY], DType::f32);
  return {as_type(backward.build, backward.build.emit<AllReduce>({dy}, along), dtype)};
}

}  // namespace trainer
