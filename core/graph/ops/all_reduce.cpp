// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/all_reduce.h"

namespace trainer {
namespace {

std::vector<TensorSpec> same(std::span<const TensorSpec> inputs) {
  expect(!inputs.empty(), "needs at least one tensor");
  for (const TensorSpec& input : inputs) expect(input.dtype == DType::f32, "takes f32 only");
  return {inputs.begin(), inputs.end()};
}

}  // namespace

std::vector<TensorSpec> CollectiveOperation::infer(std::span<const TensorSpec> inputs) const {
  return same(inputs);
}

std::vector<TensorSpec> DecayByRank::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs, "needs one tensor");
  return same(inputs);
}

}  // namespace trainer
