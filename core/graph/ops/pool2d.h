// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/ops/conv2d.h"

namespace trainer {

/// x (N, C, H, W) -> y (N, C, H', W'): the largest of each window; also its place in the window, u8, row by
/// row, for the gradient. A NaN wins over all numbers. Padding never wins. Windows have at most 255 places.
class MaxPool2d final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY, kPlaces };

  explicit MaxPool2d(Conv2dGeometry g) : geometry(g) {}
  std::string_view name() const override { return "max_pool2d"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override { geometry.describe(visit); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;
  bool is_non_negative(const std::vector<bool>& inputs) const override { return inputs[kX]; }

  const Conv2dGeometry geometry;
};

/// dy, places -> dx: each gradient goes to the place that won.
class MaxPool2dBackward final : public Operation {
 public:
  enum : size_t { kDy, kPlaces, kInputs };
  enum : size_t { kDx };

  MaxPool2dBackward(Conv2dGeometry g, Shape x) : geometry(g), x_shape(std::move(x)) {}
  std::string_view name() const override { return "max_pool2d_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const Conv2dGeometry geometry;
  const Shape x_shape;
};

/// x (N, C, H, W) -> y (N, C, H', W'): the mean of each window, padding counted as zeros (PyTorch's default).
class AvgPool2d final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  explicit AvgPool2d(Conv2dGeometry g) : geometry(g) {}
  std::string_view name() const override { return "avg_pool2d"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override { geometry.describe(visit); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec>,
                                         std::span<const TensorSpec> outputs) const override {
    return links_of_channels({kX}, outputs[kY].shape);
  }
  bool is_non_negative(const std::vector<bool>& inputs) const override { return inputs[kX]; }

  const Conv2dGeometry geometry;
};

/// dy -> dx: each gradient is spread evenly over its window.
class AvgPool2dBackward final : public Operation {
 public:
  enum : size_t { kDy, kInputs };
  enum : size_t { kDx };

  AvgPool2dBackward(Conv2dGeometry g, Shape x) : geometry(g), x_shape(std::move(x)) {}
  std::string_view name() const override { return "avg_pool2d_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const Conv2dGeometry geometry;
  const Shape x_shape;
};

}  // namespace trainer
