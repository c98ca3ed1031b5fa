// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// The same tensor in another memory layout. Only planning writes it; the layouts stand in its choice.
class Reorder final : public Operation {
 public:
  std::string_view name() const override { return "reorder"; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override { return {inputs[0]}; }
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
};

}  // namespace trainer
