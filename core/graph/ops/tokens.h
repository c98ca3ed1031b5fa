// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"
#include "core/graph/ops/elementwise.h"

namespace trainer {

/// Each pixel becomes a token: x (N, C, H, W) -> y (N, H * W, C). Images with their channels last have the
/// memory layout of their tokens, so nothing is copied: planning requests that layout, and y shares their
/// memory.
class ImagesToTokens final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  std::string_view name() const override { return "images_to_tokens"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool is_view() const override { return true; }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;
};

/// The reverse: x (N, H * W, C) -> y (N, C, H, W), which has its channels last.
class TokensToImages final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  explicit TokensToImages(Size2d of_images) : size(of_images) {}
  std::string_view name() const override { return "tokens_to_images"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool is_view() const override { return true; }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;

  const Size2d size;  ///< H, W
};

}  // namespace trainer
