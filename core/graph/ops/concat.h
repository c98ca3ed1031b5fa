// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "core/graph/operation.h"

namespace trainer {

/// The inputs one after another along `axis`; their other dimensions agree.
class Concat final : public Operation {
 public:
  enum : size_t { kY };

  explicit Concat(int64_t a) : axis(a) {}
  std::string_view name() const override { return "concat"; }
  void describe(AttributeVisitor& visit) const override { visit("axis", axis); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool is_non_negative(const std::vector<bool>& inputs) const override {
    return std::ranges::find(inputs, false) == inputs.end();
  }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return axis >= 2;
  }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;

  const int64_t axis;
};

/// Indices [begin, begin + length) along `axis`.
class Slice final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  Slice(int64_t a, int64_t first, int64_t count) : axis(a), begin(first), length(count) {}
  std::string_view name() const override { return "slice"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool is_non_negative(const std::vector<bool>& inputs) const override { return inputs[kX]; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return axis >= 2;
  }

  const int64_t axis, begin, length;
};

}  // namespace trainer
