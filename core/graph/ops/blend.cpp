// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/blend.h"

#include <fmt/format.h>

namespace trainer {

std::string Blend::attributes() const {
  return scale == 1 ? fmt::format("share={:g}", share) : fmt::format("share={:g} scale={:g}", share, scale);
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
