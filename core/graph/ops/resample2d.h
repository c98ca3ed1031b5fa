// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/ops/conv2d.h"

namespace trainer {

/// How each output along one axis is a weighted sum of inputs: the inputs and weights of output o are entries
/// begin[o] to begin[o + 1].
struct Taps {
  std::vector<int64_t> begin{0}, input;
  std::vector<double> weight;

  /// The same sums from the inputs' side: the gradient computes them.
  Taps transposed(int64_t inputs) const;
};

/// The rules of PyTorch: the nearest place; linear between places, pixel centres at halves or, aligned, the
/// corners on each other; the mean of the window [floor(o * in / out), ceil((o + 1) * in / out)).
enum class Resampling { nearest, bilinear, bilinear_aligned, average };
Taps taps(Resampling how, int64_t inputs, int64_t outputs);

/// x (N, C, H, W) -> y (N, C, H', W'), by the same rule along both axes.
class Resample2d final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  Resample2d(Resampling rule, Size2d out) : how(rule), output(out) {}
  std::string_view name() const override { return "resample2d"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec>,
                                         std::span<const TensorSpec> outputs) const override {
    return links_of_channels({kX}, outputs[kY].shape);
  }
  bool is_non_negative(const std::vector<bool>& inputs) const override { return inputs[kX]; }

  const Resampling how;
  const Size2d output;
};

/// dy (N, C, H', W') -> dx of the given shape (N, C, H, W).
class Resample2dBackward final : public Operation {
 public:
  enum : size_t { kDy, kInputs };
  enum : size_t { kDx };

  Resample2dBackward(Resampling rule, Shape x) : how(rule), x_shape(std::move(x)) {}
  std::string_view name() const override { return "resample2d_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const Resampling how;
  const Shape x_shape;
};

}  // namespace trainer
