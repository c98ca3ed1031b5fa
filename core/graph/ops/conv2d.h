// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/graph/operation.h"
#include "core/graph/ops/elementwise.h"

namespace trainer {

struct Conv2dGeometry {
  Size2d kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1;

  void describe(AttributeVisitor& visit) const;
  /// floor((in + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1, by dimension.
  Size2d output(Size2d input) const;
};

/// Cross-correlation as in PyTorch. x (N, C, H, W), w (O, C/groups, kh, kw), bias (O) or absent -> y (N, O,
/// H', W'). With `relu` (set by fusion) y is clamped at zero in the same pass: NaN and infinity reach y as
/// from the two operations, the sign of a zero may not. A residual from fusion, where nothing is
/// differentiated, is added before the relu. With `moments` (set by fusion,
/// after differentiation) the sums of y and of y^2 over each channel are two more outputs, f32 (O), which
/// BatchNorm reads. Then zeros that both are added to may be given.
class Conv2d final : public Operation {
 public:
  enum : size_t {
    kX,
    kWeight,
    kBias,      ///< or absent
    kZeroSums,  ///< (O), values that the sums are added to, or absent
    kZeroSquares,
    kResidual,  ///< of y's shape and type, or absent
    kInputs
  };
  enum : size_t {
    kY,
    kSums,  ///< only with `moments`, as the next one
    kSquares,
  };

  explicit Conv2d(Conv2dGeometry g, bool with_relu = false, bool with_moments = false)
      : geometry(g), relu(with_relu), moments(with_moments) {}
  std::string_view name() const override { return "conv2d"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::low; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  std::optional<QuantizedForm> quantized_form(std::span<const TensorSpec> inputs) const override;
  /// Sums over their zeros, y over the residual.
  bool in_place(size_t input, size_t output) const override {
    return (output == kSums && input == kZeroSums) || (output == kSquares && input == kZeroSquares) ||
           (output == kY && input == kResidual);
  }
  /// Groups of one input channel are removed as wholes. From others each loses the same channels.
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;

  const Conv2dGeometry geometry;
  const bool relu, moments;
};

/// dy (N, O, H', W'), w -> dx (N, C, H, W). Also the forward part of a transposed convolution.
class Conv2dBackwardData final : public Operation {
 public:
  enum : size_t { kDy, kWeight, kInputs };
  enum : size_t { kDx };

  Conv2dBackwardData(Conv2dGeometry g, Shape x) : geometry(g), x_shape(std::move(x)) {}
  std::string_view name() const override { return "conv2d_backward_data"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::low; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  /// As the convolution's.
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;

  const Conv2dGeometry geometry;
  const Shape x_shape;
};

/// x, dy -> dw and, if the convolution has one, the gradient of the bias. Both are f32 whatever x and dy
/// are: the type of the sums of products, and of the stored weights. If a device rounds dw to the type of x
/// and dy anyway, fusion requests dw in that `dtype`, so that many are cast at once.
class Conv2dBackwardWeights final : public Operation {
 public:
  enum : size_t { kX, kDy, kInputs };
  enum : size_t {
    kDweight,
    kDbias,  ///< only if the convolution has a bias
  };

  Conv2dBackwardWeights(Conv2dGeometry g, Shape w, bool bias, DType of_dw = DType::f32)
      : geometry(g), w_shape(std::move(w)), has_bias(bias), dtype(of_dw) {}
  std::string_view name() const override { return "conv2d_backward_weights"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const Conv2dGeometry geometry;
  const Shape w_shape;
  const bool has_bias;
  const DType dtype;
};

}  // namespace trainer
