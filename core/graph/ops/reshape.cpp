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

}  // namespace trainer
