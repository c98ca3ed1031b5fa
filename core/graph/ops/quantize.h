// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/weight_bits.h"
#include "core/graph/operation.h"

namespace trainer {

/// y = x / scale + zero_point, rounded to the nearest whole number (ties to even) and saturated. x f32 of any
/// shape -> y u8. A NaN becomes 0.
class Quantize final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  explicit Quantize(Quantization q) : quantization(q) {}
  std::string_view name() const override { return "quantize"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const Quantization quantization;
};

/// y = scale * (x - zero_point). x u8 of any shape -> y f32.
class Dequantize final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  explicit Dequantize(Quantization q) : quantization(q) {}
  std::string_view name() const override { return "dequantize"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const Quantization quantization;
};

/// w f32 (O, ...) -> integers i8 of its shape, scale f32 (O), w = scale[o] * integer, as base/weight_bits.h
/// says. The scales are 1 where all weights are zero.
class QuantizeWeights final : public Operation {
 public:
  enum : size_t { kWeight, kInputs };
  enum : size_t { kIntegers, kScale };

  explicit QuantizeWeights(WeightLevels to) : levels(to) {}
  std::string_view name() const override { return "quantize_weights"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const WeightLevels levels;
};

/// Multiplier and bias of a product in 8 bits (ops/quantized_product.h) of x with this quantisation, whose
/// result is stored in units of y_scale: w i8 (O, ...), its scale f32 (O), bias f32 (O) or absent ->
///   multiplier[o] = x.scale * scale[o] / y_scale
///   bias'[o] = bias[o] / y_scale - multiplier[o] * x.zero_point * sum of w[o] + shift
/// The sum undoes the zero point exactly if every output reads all of w[o]: without padding.
class ProductScales final : public Operation {
 public:
  enum : size_t {
    kWeight,
    kScale,
    kBias,  ///< or absent
    kInputs
  };
  enum : size_t { kMultiplier, kShiftedBias };

  ProductScales(Quantization of_x, double of_y, double plus) : x(of_x), y_scale(of_y), shift(plus) {}
  std::string_view name() const override { return "product_scales"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const Quantization x;
  const double y_scale, shift;
};

/// The values of a tensor: x f32 of any shape -> extremes f32 (2), its least and greatest value; counts i32
/// (kBins), how many are in each of kBins equal parts of [low, high]. Values beyond count in the first and
/// last part. A NaN makes both extremes NaN, and counts in no part.
class ObserveRange final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kExtremes, kCounts };
  static constexpr int64_t kBins = 2048;

  ObserveRange(double least, double greatest) : low(least), high(greatest) {}
  std::string_view name() const override { return "observe_range"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const double low, high;
};

}  // namespace trainer
