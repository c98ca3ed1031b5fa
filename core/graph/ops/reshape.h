// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// The same elements in the same order under another shape.
class Reshape final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  explicit Reshape(Shape to) : shape(std::move(to)) {}
  std::string_view name() const override { return "reshape"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override { visit("shape", shape, {.hidden = true}); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool is_view() const override { return true; }
  bool is_non_negative(const std::vector<bool>& inputs) const override { return inputs[kX]; }
  bool is_by_position(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  /// Of equal dimensions, and of several that become one: the first of these are its channels.
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;

  const Shape shape;
};

}  // namespace trainer
