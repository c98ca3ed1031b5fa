// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/reshape.h"

namespace trainer {

std::vector<TensorSpec> Reshape::infer(std::span<const TensorSpec> inputs) const {
  expect(numel(inputs[kX].shape) == numel(shape),
         "shape " + to_string(inputs[kX].shape) + " has another number of elements than " + to_string(shape));
  return {{.shape = shape, .dtype = inputs[kX].dtype}};
}

std::vector<TensorId> Reshape::gradient(const Backward& backward) const {
  return {backward.build.emit<Reshape>({backward.dy[kY]}, backward.shape(kX))};
}

/// As long as samples and positions stay in front of the features.
bool Reshape::is_by_position(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  const Shape &from = inputs[kX].shape, &to = outputs[kY].shape;
  return from.size() >= 2 && to.size() >= 2 && from[0] == to[0] && from[1] == to[1];
}

}  // namespace trainer
