// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/apply_mask.h"

namespace trainer {

std::vector<TensorSpec> ApplyMask::infer(std::span<const TensorSpec> inputs) const {
  const char* const text = "needs f32 values and a u8 mask of their shape";
  expect_count(inputs, kInputs, text);
  expect_type(inputs, {kX}, DType::f32);
  expect(inputs[kMask] == TensorSpec{inputs[kX].shape, DType::u8}, text);
  return {inputs[kX]};
}

}  // namespace trainer
