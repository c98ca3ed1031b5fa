// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/cast.h"

namespace trainer {

std::vector<TensorSpec> Cast::infer(std::span<const TensorSpec> inputs) const {
  expect(is_floating(inputs[kX].dtype) && is_floating(to), "only floating point numbers are cast");
  return {{.shape = inputs[kX].shape, .dtype = to}};
}

/// The gradient of weights arrives in f32 already, whatever they were cast to.
std::vector<TensorId> Cast::gradient(const Backward& backward) const {
  const DType from = backward.build.program().spec(backward.x(kX)).dtype;
  const TensorId dy = backward.dy[kY];
  if (backward.build.program().spec(dy).dtype == from) return {dy};
  return {backward.build.emit<Cast>({dy}, from)};
}

}  // namespace trainer
