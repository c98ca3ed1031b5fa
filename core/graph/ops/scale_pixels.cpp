// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/scale_pixels.h"

namespace trainer {

void ScalePixels::describe(AttributeVisitor& visit) const {
  visit("to", std::string(to_string(to)));
  visit("channels", channels, {.hidden = channels == 0});
}

std::vector<TensorSpec> ScalePixels::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[kX].shape;
  expect(x.size() == 4 && inputs[kX].dtype == DType::u8, "expected images (N, C, H, W) of u8, got " +
                                                             to_string(x) + " of " +
                                                             std::string(to_string(inputs[kX].dtype)));
  const TensorSpec factor{{x[1]}, DType::f32};
  expect(inputs[kScale] == factor && inputs[kOffset] == factor,
         "expected a scale and an offset for each channel");
  expect(is_floating(to), "numbers are of a floating point type");
  expect(channels == 0 || channels > x[1],
         "expected more channels than the " + std::to_string(x[1]) + " of the images");
  return {{.shape = {x[0], channels > 0 ? channels : x[1], x[2], x[3]}, .dtype = to}};
}

}  // namespace trainer
