// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/ops/dropout.h"

namespace trainer {

/// x (N, …), sample indices i32 (N), step i32 (1) -> y: whole samples become 0 with probability p, the others
/// are scaled by 1 / (1 - p) (Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016). The gradient
/// is the same operation on dy.
class StochasticDepth final : public Operation {
 public:
  enum : size_t { kX, kSample, kStep, kInputs };
  enum : size_t { kY };

  explicit StochasticDepth(DropoutSettings r) : settings(r) {}
  std::string_view name() const override { return "stochastic_depth"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  bool in_place(size_t input, size_t) const override { return input == kX; }
  bool is_non_negative(const std::vector<bool>& inputs) const override { return inputs[kX]; }

  /// The factor of all elements of a sample.
  static TRAINER_HD float factor(const DropoutSettings& settings, int32_t sample, int32_t step) {
    return settings.factor(settings.block(0, sample, step).v[0]);
  }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec>,
                                         std::span<const TensorSpec> outputs) const override {
    return links_of_elements({kX}, outputs[kY].shape);
  }

  const DropoutSettings settings;
};

}  // namespace trainer
