// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/all_reduce.h"

#include <algorithm>
#include <cmath>

namespace trainer {
namespace {

std::vector<TensorSpec> same(std::span<const TensorSpec> inputs) {
  expect(!inputs.empty(), "needs at least one tensor");
  for (const TensorSpec& input : inputs) expect(input.dtype == DType::f32, "takes f32 only");
  return {inputs.begin(), inputs.end()};
}

const CollectiveStart* start_in(const Node& node) {
  return dynamic_cast<const CollectiveStart*>(node.op.get());
}

}  // namespace

void CollectiveStart::describe(AttributeVisitor& visit) const {
  visit("number", number);
  visit("axis", std::string(to_string(axis)), {.hidden = axis == Axis::data});
}

std::vector<TensorSpec> CollectiveStart::infer(std::span<const TensorSpec> inputs) const {
  return same(inputs);
}

void BroadcastStart::describe(AttributeVisitor& visit) const {
  CollectiveStart::describe(visit);
  visit("root", root);
}

std::vector<TensorSpec> CollectiveDone::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, count + read, "needs each tensor that was started, and what is still read");
  return {inputs.begin(), inputs.begin() + static_cast<ptrdiff_t>(count)};
}

int64_t next_collective(const Entry& entry) {
  int64_t next = 0;
  for (const Node& node : entry.nodes) {
    if (const CollectiveStart* start = start_in(node)) next = std::max(next, start->number + 1);
  }
  return next;
}

void DecayByRank::describe(AttributeVisitor& visit) const {
  visit("decay", decay, {.digits = 6});
  visit("after", after);
}

double DecayByRank::factor(const Mesh& mesh, int64_t rank) const {
  const auto position = static_cast<size_t>(mesh.coordinate(Axis::data, rank));
  return std::pow(decay, static_cast<double>(after.at(position)));
}

std::vector<TensorSpec> DecayByRank::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "needs one tensor");
  return same(inputs);
}

}  // namespace trainer
