// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// x (N, C, H, W), s (N, C, 1, 1) -> y = x * s: each channel of each image has its own factor.
class ScaleChannels final : public Operation {
 public:
  enum : size_t { kX, kFactors, kInputs };
  enum : size_t { kY };

  std::string_view name() const override { return "scale_channels"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  bool in_place(size_t input, size_t) const override { return input == kX; }
  bool is_non_negative(const std::vector<bool>& inputs) const override {
    return inputs[kX] && inputs[kFactors];
  }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec>,
                                         std::span<const TensorSpec> outputs) const override {
    return links_of_channels({kX, kFactors}, outputs[kY].shape);
  }
};

/// dy, x (N, C, H, W) -> ds (N, C, 1, 1): the sum of dy * x over each image.
class ScaleChannelsBackward final : public Operation {
 public:
  enum : size_t { kDy, kX, kInputs };
  enum : size_t { kDfactors };

  std::string_view name() const override { return "scale_channels_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
};

/// x (N, C, H, W), b (C) -> y = x + b, one number for each channel; b is f32 whatever x is.
class AddChannels final : public Operation {
 public:
  enum : size_t { kX, kBias, kInputs };
  enum : size_t { kY };

  std::string_view name() const override { return "add_channels"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t input) const override {
    return input == kX ? InputType::widest : InputType::f32;
  }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  bool in_place(size_t input, size_t) const override { return input == kX; }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;
};

/// dy (N, C, H, W) -> db (C), f32: the sum over batch and images.
class AddChannelsBackward final : public Operation {
 public:
  enum : size_t { kDy, kInputs };
  enum : size_t { kDbias };

  std::string_view name() const override { return "add_channels_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
};

}  // namespace trainer
