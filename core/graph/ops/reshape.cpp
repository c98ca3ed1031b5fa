// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/reshape.h"

namespace trainer {

std::vector<TensorSpec> Reshape::infer(std::span<const TensorSpec> inputs) const {
  expect(numel(inputs[0].shape) == numel(shape),
         "shape " + to_string(inputs[0].shape) + " has another number of elements than " + to_string(shape));
  return {{.shape = shape, .dtype = inputs[0].dtype}};
}

std::vector<TensorId> Reshape::gradient(const Backward& backward) const {
  return {backward.build.emit<Reshape>({backward.dy[0]}, backward.shape(0))};
}

/// As long as samples and positions stay in front of the features.
bool Reshape::is_by_position(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  const Shape &from = inputs[0].shape, &to = outputs[0].shape;
  return from.size() >= 2 && to.size() >= 2 && from[0] == to[0] && from[1] == to[1];
}

}  // namespace trainer
