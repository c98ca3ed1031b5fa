// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// The same tensor in another memory layout. Only planning writes it; its choice holds the layouts.
class Reorder final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  std::string_view name() const override { return "reorder"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override { return {inputs[kX]}; }
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
};

}  // namespace trainer
