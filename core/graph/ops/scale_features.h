// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// x (N, E) or (N, T, E), s (E), f32 whatever x is -> y = x * s, a factor for each feature.
class ScaleFeatures final : public Operation {
 public:
  enum : size_t { kX, kFactors, kInputs };
  enum : size_t { kY };

  std::string_view name() const override { return "scale_features"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t input) const override {
    return input == kX ? InputType::widest : InputType::f32;
  }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  bool in_place(size_t input, size_t) const override { return input == kX; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;
};

/// dy and x (N, E) or (N, T, E) -> ds (E), f32: the sum of dy * x over all rows.
class ScaleFeaturesBackward final : public Operation {
 public:
  enum : size_t { kDy, kX, kInputs };
  enum : size_t { kDfactors };

  std::string_view name() const override { return "scale_features_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
};

}  // namespace trainer
