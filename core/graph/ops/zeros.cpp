// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/zeros.h"

namespace trainer {

std::vector<TensorSpec> Zeros::infer(std::span<const TensorSpec>) const {
  std::vector<TensorSpec> outputs;
  for (const Shape& shape : shapes) outputs.push_back({.shape = shape, .dtype = DType::f32});
  return outputs;
}

}  // namespace trainer
