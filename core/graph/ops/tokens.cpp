// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/tokens.h"

#include <fmt/format.h>

namespace trainer {

std::vector<TensorSpec> ImagesToTokens::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[kX].shape;
  expect(x.size() == 4, "expected images (N, C, H, W), got shape " + to_string(x));
  return {{.shape = {x[0], x[2] * x[3], x[1]}, .dtype = inputs[kX].dtype}};
}

std::vector<ChannelLink> ImagesToTokens::channel_links(std::span<const TensorSpec> /*inputs*/,
                                                       std::span<const TensorSpec> outputs) const {
  return {{.channels = outputs[kY].shape[2], .places = {channel_in(kX, 1), channel_out(kY, 2)}}};
}

std::vector<TensorId> ImagesToTokens::gradient(const Backward& backward) const {
  const Shape x = backward.shape(kX);
  return {backward.build.emit<TokensToImages>({backward.dy[kY]}, Size2d{x[2], x[3]})};
}

void TokensToImages::describe(AttributeVisitor& visit) const {
  visit("height", size[0], {.hidden = true});
  visit("width", size[1], {.hidden = true});
}

std::vector<TensorSpec> TokensToImages::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[kX].shape;
  expect(x.size() == 3 && x[1] == size[0] * size[1],
         fmt::format("expected {} x {} tokens (N, H * W, C), got shape {}", size[0], size[1], to_string(x)));
  return {{.shape = {x[0], x[2], size[0], size[1]}, .dtype = inputs[kX].dtype}};
}

std::vector<ChannelLink> TokensToImages::channel_links(std::span<const TensorSpec> /*inputs*/,
                                                       std::span<const TensorSpec> outputs) const {
  return {{.channels = outputs[kY].shape[1], .places = {channel_in(kX, 2), channel_out(kY, 1)}}};
}

std::vector<TensorId> TokensToImages::gradient(const Backward& backward) const {
  return {backward.build.emit<ImagesToTokens>({backward.dy[kY]})};
}

}  // namespace trainer
