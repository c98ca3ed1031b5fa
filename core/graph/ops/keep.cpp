// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/keep.h"

namespace trainer {

std::vector<TensorSpec> Keep::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs.size() == 3 && inputs[0] == inputs[1], "needs two tensors of one shape");
  expect(inputs[2] == TensorSpec{{1}, DType::f32}, "needs one number that says whether to skip");
  return {inputs[0]};
}

}  // namespace trainer
