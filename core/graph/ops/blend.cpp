// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/blend.h"

#include <fmt/format.h>

namespace trainer {

void Blend::describe(AttributeVisitor& visit) const {
  visit("share", share, {.digits = 6});
  visit("scale", scale, {.hidden = scale == 1, .digits = 6});
}

std::vector<TensorSpec> Blend::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs[0] == inputs[1], fmt::format("expected two tensors of one shape, got {} and {}",
                                             to_string(inputs[0].shape), to_string(inputs[1].shape)));
  expect(inputs.size() == 2 || inputs[2] == TensorSpec{{1}, DType::f32},
         "needs one number that says whether to skip");
  return {inputs[0]};
}

double Blend::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return 4.0 * static_cast<double>(numel(inputs[0].shape));
}

}  // namespace trainer
