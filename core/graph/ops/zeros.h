// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// -> zeros (f32) of each shape, at once. A pass puts it before nodes that add to their output, so it has
/// no gradient.
class Zeros final : public Operation {
 public:
  explicit Zeros(std::vector<Shape> all) : shapes(std::move(all)) {}
  std::string_view name() const override { return "zeros"; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const std::vector<Shape> shapes;
};

}  // namespace trainer
