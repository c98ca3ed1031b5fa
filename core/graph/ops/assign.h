// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// state := value. The plan lets the value be computed in the state's own memory if nothing reads the old
/// value afterwards; then it costs nothing.
class Assign final : public Operation {
 public:
  enum : size_t { kState, kValue, kInputs };

  std::string_view name() const override { return "assign"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }
};

}  // namespace trainer
