// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// x with `before` and `after` zeros around it along an axis.
class Pad final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  Pad(int64_t a, int64_t zeros_before, int64_t zeros_after)
      : axis(a), before(zeros_before), after(zeros_after) {}
  std::string_view name() const override { return "pad"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return axis >= 2;
  }

  const int64_t axis, before, after;
};

/// x with two of its dimensions exchanged, first < second.
class Transpose final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  Transpose(int64_t a, int64_t b) : first(a), second(b) {}
  std::string_view name() const override { return "transpose"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }

  const int64_t first, second;
};

/// A tensor around two of its dimensions: (outer, a, middle, b, inner), of which a and b are exchanged.
struct TransposedSizes {
  int64_t outer = 1, a, middle = 1, b, inner = 1;
  TransposedSizes(const Transpose& op, const Shape& x);
};

/// x (1, ...) -> y (N, ...): the same for each sample.
class RepeatSamples final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  explicit RepeatSamples(int64_t n) : samples(n) {}
  std::string_view name() const override { return "repeat_samples"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override { visit("samples", samples, {.hidden = true}); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::low; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec>, std::span<const TensorSpec>) const override { return 0; }
  std::optional<size_t> table_input() const override { return kX; }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;

  const int64_t samples;
};

/// dy (N, ...) -> dx (1, ...), f32: the sum over samples.
class SumSamples final : public Operation {
 public:
  enum : size_t { kDy, kInputs };
  enum : size_t { kDx };

  std::string_view name() const override { return "sum_samples"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
};

}  // namespace trainer
