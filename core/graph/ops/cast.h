// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// The same numbers in another floating point type, rounded to nearest, ties to even. Planning lets it change
/// the layout in the same pass.
class Cast final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  explicit Cast(DType dtype) : to(dtype) {}
  std::string_view name() const override { return "cast"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override { visit("to", std::string(to_string(to))); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }

  const DType to;
};

}  // namespace trainer
