// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/scale_features.h"

#include <fmt/format.h>

namespace trainer {

std::vector<TensorSpec> ScaleFeatures::infer(std::span<const TensorSpec> inputs) const {
  const Shape &x = inputs[kX].shape, &s = inputs[kFactors].shape;
  expect(x.size() == 2 || x.size() == 3, "expected features (N, E) or (N, T, E), got " + to_string(x));
  expect_type(inputs, {kFactors}, DType::f32);
  expect(s == Shape{x.back()}, fmt::format("factors of shape {} met {} features", to_string(s), x.back()));
  return {inputs[kX]};
}

std::vector<TensorId> ScaleFeatures::gradient(const Backward& backward) const {
  std::vector<TensorId> gradients(kInputs, kNone);
  const TensorId dy = backward.dy[kY];
  if (backward.wanted[kX]) gradients[kX] = backward.build.emit<ScaleFeatures>({dy, backward.x(kFactors)});
  if (backward.wanted[kFactors])
    gradients[kFactors] = backward.build.emit<ScaleFeaturesBackward>({dy, backward.x(kX)});
  return gradients;
}

std::vector<ChannelLink> ScaleFeatures::channel_links(std::span<const TensorSpec> /*inputs*/,
                                                      std::span<const TensorSpec> outputs) const {
  std::vector<ChannelLink> links = links_of_elements({kX}, outputs[kY].shape);
  links.back().places.push_back(channel_in(kFactors, 0));
  return links;
}

std::vector<TensorSpec> ScaleFeaturesBackward::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs[kDy] == inputs[kX], "the inputs must have one shape");
  return {{.shape = {inputs[kDy].shape.back()}, .dtype = DType::f32}};
}

double ScaleFeaturesBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return 2.0 * static_cast<double>(numel(inputs[kDy].shape));
}

}  // namespace trainer
