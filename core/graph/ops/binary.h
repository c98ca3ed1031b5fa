// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "core/graph/operation.h"

namespace trainer {

/// y = a + b or y = a * b, element by element, both of one shape; a sum may end with a relu, which is clamped
/// at `ceiling`: infinity, or 6.
class Binary final : public Operation {
 public:
  enum : size_t { kA, kB, kInputs };
  enum : size_t { kY };

  enum class Kind { add, mul };
  explicit Binary(Kind k) : Binary(k, false, std::numeric_limits<double>::infinity()) {}
  Binary(Kind k, bool with_relu, double clamped_at) : kind(k), relu(with_relu), ceiling(clamped_at) {}
  std::string_view name() const override { return kind == Kind::add ? "add" : "mul"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  bool in_place(size_t, size_t) const override { return true; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }
  std::optional<FeatureCut> feature_cut(std::span<const TensorSpec>) const override { return {{{kA, kB}}}; }
  std::vector<size_t> row_inputs(std::span<const TensorSpec>) const override { return {kA, kB}; }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec>,
                                         std::span<const TensorSpec> outputs) const override {
    return links_of_elements({kA, kB}, outputs[kY].shape);
  }
  bool is_non_negative(const std::vector<bool>& inputs) const override {
    return relu || (inputs[kA] && inputs[kB]);
  }

  const Kind kind;
  const bool relu;
  const double ceiling;
};

}  // namespace trainer
