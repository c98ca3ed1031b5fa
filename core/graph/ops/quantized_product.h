// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"
#include "core/graph/ops/conv2d.h"

namespace trainer {

/// The operands of products in 8 bits: x u8, w i8, multiplier and bias (O) f32, residual or absent -> y. The
/// sums of x * w are exact integers. Scales and zero points are part of multiplier and bias (ProductScales),
/// so that y = clip(multiplier[o] * sum + bias[o] + residual_factor * residual), as QuantizedEnd says. A
/// residual has y's shape and type.
class QuantizedProduct : public Operation {
 public:
  enum : size_t { kX, kWeight, kMultiplier, kBias, kResidual, kInputs };
  enum : size_t { kY };

  explicit QuantizedProduct(QuantizedEnd after) : end(after) {}
  std::optional<size_t> input_count() const override { return kInputs; }
  bool in_place(size_t input, size_t output) const override { return input == kResidual && output == kY; }

  const QuantizedEnd end;
};

/// Conv2d in 8 bits: x (N, C, H, W), w (O, C/groups, kh, kw) -> y (N, O, H', W').
class QuantizedConv2d final : public QuantizedProduct {
 public:
  QuantizedConv2d(Conv2dGeometry g, QuantizedEnd after) : QuantizedProduct(after), geometry(g) {}
  std::string_view name() const override { return "quantized_conv2d"; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const Conv2dGeometry geometry;
};

/// Linear in 8 bits: x (N, K) or (N, T, K), w (O, K) -> y (N, O) or (N, T, O).
class QuantizedLinear final : public QuantizedProduct {
 public:
  explicit QuantizedLinear(QuantizedEnd after) : QuantizedProduct(after) {}
  std::string_view name() const override { return "quantized_linear"; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
};

}  // namespace trainer
