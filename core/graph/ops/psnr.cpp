// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/psnr.h"

namespace trainer {

std::vector<TensorSpec> Psnr::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[kX].shape;
  expect(x.size() == 4, "expected images (N, C, H, W), got " + to_string(x));
  expect_type(inputs, {kX, kTargets, kWeights, kScale}, DType::f32);
  expect(inputs[kTargets].shape == x,
         "needs a target for each output, got " + to_string(inputs[kTargets].shape) + " for " + to_string(x));
  expect(inputs[kWeights].shape == Shape{x[0]}, "needs one weight per sample");
  expect(inputs[kScale].shape == Shape{x[1]}, "needs a scale for each channel");
  return {{.shape = {1}, .dtype = DType::f32}};
}

double Psnr::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return 3 * static_cast<double>(numel(inputs[kX].shape));
}

}  // namespace trainer
