// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/tokens.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

class ToTokensLayer final : public Layer {
 public:
  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    return {context.build.emit<ImagesToTokens>({x[0]})};
  }
};

class ToImagesLayer final : public Layer {
 public:
  size_t min_inputs() const override { return 2; }
  size_t max_inputs() const override { return 2; }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape tokens = context.build.shape(x[0]), images = context.build.shape(x[1]);
    if (tokens.size() != 3 || images.size() != 4 || tokens[1] != images[2] * images[3]) {
      fail_at(origin,
              fmt::format("expected tokens (N, H * W, features) and images (N, C, H, W), got shapes {} "
                          "and {}",
                          to_string(tokens), to_string(images)));
    }
    return {context.build.emit<TokensToImages>({x[0]}, Size2d{images[2], images[3]})};
  }
};

}  // namespace

Registered<Layer> to_tokens_layer() {
  return {"to_tokens", "turns each pixel into a token: (N, C, H, W) to (N, H * W, C)",
          [] { return std::make_unique<ToTokensLayer>(); }};
}

Registered<Layer> to_images_layer() {
  return {"to_images",
          "the inverse of to_tokens: (N, H * W, C) to (N, C, H, W); H and W are those of its second input",
          [] { return std::make_unique<ToImagesLayer>(); }};
}

}  // namespace trainer
