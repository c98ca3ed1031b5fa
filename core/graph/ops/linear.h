// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// The matrix that products see of features: all dimensions but the last count rows. (N, T, K) is (N * T, K).
Shape as_rows(const Shape& features);

/// The function after a linear layer's sum, in the same pass; set by fusion.
enum class LinearFunction { none, relu, relu_with_mask, gelu_tanh };

/// y = x wT + bias over the last dimension. x (N, K) or (N, T, K), w (O, K), bias (O) or absent -> y (N, O)
/// or (N, T, O). An addend from fusion is added before the function. gelu_tanh also outputs the sum itself,
/// if needed, for the gradient. relu keeps NaN. relu_with_mask also outputs the mask of y > 0, and may turn
/// NaN into 0. With `transposed`, here and in the gradients, w and its gradient are (K, O).
class Linear final : public Operation {
 public:
  enum : size_t {
    kX,
    kWeight,
    kBias,   ///< or absent
    kAdded,  ///< of y's shape and type, or absent
    kInputs
  };
  enum : size_t {
    kY,
    kKept,  ///< of gelu_tanh the sum, of relu_with_mask the mask, of others nothing
  };

  explicit Linear(LinearFunction after = LinearFunction::none, bool turned = false)
      : function(after), transposed(turned) {}
  std::string_view name() const override { return "linear"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::low; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  std::optional<QuantizedForm> quantized_form(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t input, size_t output) const override { return input == kAdded && output == kY; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;

  const LinearFunction function;
  const bool transposed;
};

/// dy (N, O) or (N, T, O), w (O, K) -> dx of the given shape (N, K) or (N, T, K). With `gelu_tanh` (set by
/// fusion) x is gelu_tanh of u, which has its shape, and the output is du. Otherwise fusion may give the mask
/// of the relu that produced x: dx is zero outside it. An addend from fusion is added with a factor before
/// the mask or the gelu's slope is applied.
class LinearBackwardData final : public Operation {
 public:
  enum : size_t {
    kDy,
    kWeight,
    kKept,   ///< with `gelu_tanh` u, else the mask of a relu or absent
    kAdded,  ///< of dx's shape and type, or absent
    kInputs
  };
  enum : size_t { kDx };

  explicit LinearBackwardData(Shape x, bool turned = false, bool of_gelu = false, double factor_of_added = 1)
      : x_shape(std::move(x)), transposed(turned), gelu_tanh(of_gelu), factor(factor_of_added) {}
  std::string_view name() const override { return "linear_backward_data"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  bool in_place(size_t input, size_t output) const override { return input == kAdded && output == kDx; }

  const Shape x_shape;
  const bool transposed, gelu_tanh;
  const double factor;  ///< of the addend
};

/// x (N, K) and dy (N, O), or x (N, T, K) and dy (N, T, O) -> dw (O, K) and, if there is one, the gradient
/// of the bias (O); both f32 whatever x and dy are. An addend from fusion is added to dw.
class LinearBackwardWeights final : public Operation {
 public:
  enum : size_t {
    kX,
    kDy,
    kAdded,  ///< of dw's shape and type, or absent
    kInputs
  };
  enum : size_t {
    kDweight,
    kDbias,  ///< only if there is one
  };

  explicit LinearBackwardWeights(bool bias, bool turned = false) : has_bias(bias), transposed(turned) {}
  std::string_view name() const override { return "linear_backward_weights"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  bool in_place(size_t input, size_t output) const override { return input == kAdded && output == kDweight; }

  const bool has_bias, transposed;
};

}  // namespace trainer
