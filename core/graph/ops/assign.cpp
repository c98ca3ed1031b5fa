// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/assign.h"

namespace trainer {

std::vector<TensorSpec> Assign::infer(std::span<const TensorSpec> inputs) const {
  const char* const text = "a state takes values of its own shape and type";
  expect_count(inputs, kInputs, text);
  expect(inputs[kState] == inputs[kValue], text);
  return {};
}

}  // namespace trainer
