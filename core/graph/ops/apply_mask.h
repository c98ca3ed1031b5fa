// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// x f32 of any shape, mask u8 of that shape -> y of that shape: x where the mask is not 0, else 0, whatever
/// x is there. It has no gradient rule: it occurs only in updates.
class ApplyMask final : public Operation {
 public:
  enum : size_t { kX, kMask, kInputs };
  enum : size_t { kY };

  std::string_view name() const override { return "apply_mask"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool in_place(size_t input, size_t) const override { return input == kX; }
};

}  // namespace trainer
