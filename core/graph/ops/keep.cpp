// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/keep.h"

namespace trainer {

std::vector<TensorSpec> Keep::infer(std::span<const TensorSpec> inputs) const {
  const char* const text = "needs two tensors of one shape";
  expect_count(inputs, kInputs, text);
  expect(inputs[kOld] == inputs[kFresh], text);
  expect(inputs[kSkip] == TensorSpec{{1}, DType::f32}, "needs one number that says whether to skip");
  return {inputs[kOld]};
}

}  // namespace trainer
