// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/lerp.h"

#include <fmt/format.h>

namespace trainer {

void Lerp::describe(AttributeVisitor& visit) const {
  visit("share", share, {.digits = 6});
  visit("scale", scale, {.hidden = scale == 1, .digits = 6});
}

std::vector<TensorSpec> Lerp::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect(inputs[kOld] == inputs[kFresh],
         fmt::format("expected two tensors of one shape, got {} and {}", to_string(inputs[kOld].shape),
                     to_string(inputs[kFresh].shape)));
  expect(!is_given(inputs[kSkip]) || inputs[kSkip] == TensorSpec{{1}, DType::f32},
         "needs one number that says whether to skip");
  return {inputs[kOld]};
}

double Lerp::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return 4.0 * static_cast<double>(numel(inputs[kOld].shape));
}

}  // namespace trainer
