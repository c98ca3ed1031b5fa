// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/scale_features.h"

#include <fmt/format.h>

namespace trainer {

std::vector<TensorSpec> ScaleFeatures::infer(std::span<const TensorSpec> inputs) const {
  const Shape &x = inputs[0].shape, &s = inputs[1].shape;
  expect(x.size() == 2 || x.size() == 3, "expected features (N, E) or (N, T, E), got " + to_string(x));
  expect_type(inputs, {1}, DType::f32);
  expect(s == Shape{x.back()}, fmt::format("factors of shape {} met {} features", to_string(s), x.back()));
  return {inputs[0]};
}

std::vector<TensorId> ScaleFeatures::gradient(const Backward& backward) const {
  std::vector<TensorId> gradients(2, kNone);
  const TensorId dy = backward.dy[0];
  if (backward.wanted[0]) gradients[0] = backward.build.emit<ScaleFeatures>({dy, backward.x(1)});
  if (backward.wanted[1]) gradients[1] = backward.build.emit<ScaleFeaturesBackward>({dy, backward.x(0)});
  return gradients;
}

std::vector<TensorSpec> ScaleFeaturesBackward::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs[0] == inputs[1], "the inputs must have one shape");
  return {{.shape = {inputs[0].shape.back()}, .dtype = DType::f32}};
}

double ScaleFeaturesBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return 2.0 * static_cast<double>(numel(inputs[0].shape));
}

}  // namespace trainer
