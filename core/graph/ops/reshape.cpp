// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/reshape.h"

namespace trainer {
namespace {

/// The dimensions of more than one element.
std::vector<size_t> long_dimensions(const Shape& shape) {
  std::vector<size_t> dimensions;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) dimensions.push_back(d);
  }
  return dimensions;
}

}  // namespace

std::vector<TensorSpec> Reshape::infer(std::span<const TensorSpec> inputs) const {
  expect(numel(inputs[kX].shape) == numel(shape),
         "shape " + to_string(inputs[kX].shape) + " has another number of elements than " + to_string(shape));
  return {{.shape = shape, .dtype = inputs[kX].dtype}};
}

std::vector<TensorId> Reshape::gradient(const Backward& backward) const {
  return {backward.build.emit<Reshape>({backward.dy[kY]}, backward.shape(kX))};
}

/// Dimensions of x are taken together until they have as many elements as one of y, and the other way round.
std::vector<ChannelLink> Reshape::channel_links(std::span<const TensorSpec> inputs,
                                                std::span<const TensorSpec> outputs) const {
  const Shape &x = inputs[kX].shape, &y = outputs[kY].shape;
  const std::vector<size_t> of_x = long_dimensions(x), of_y = long_dimensions(y);
  std::vector<ChannelLink> links;
  for (size_t i = 0, j = 0; i < of_x.size();) {
    const size_t first = of_x[i], to = of_y[j];
    int64_t from = x[of_x[i++]], into = y[of_y[j++]];
    bool is_split = false;
    while (from != into) {
      if (from < into) {
        from *= x[of_x[i++]];
      } else {
        into *= y[of_y[j++]];
        is_split = true;
      }
    }
    if (is_split) continue;
    links.push_back(
        {.channels = x[first], .places = {channel_in(kX, first), channel_out(kY, to, y[to] / x[first])}});
  }
  return links;
}

/// As long as samples and positions stay in front of the features.
bool Reshape::is_by_position(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  const Shape &from = inputs[kX].shape, &to = outputs[kY].shape;
  return from.size() >= 2 && to.size() >= 2 && from[0] == to[0] && from[1] == to[1];
}

}  // namespace trainer
