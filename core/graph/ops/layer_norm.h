// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// Layer normalisation (Ba, Kiros, Hinton, 2016) of each row, the last dimension:
/// y = gamma * (s - mean) / sqrt(variance + eps) + beta; with `rms` (Zhang, Sennrich, "Root Mean Square Layer
/// Normalization", NeurIPS 2019) y = gamma * s / sqrt(mean of s^2 + eps) + beta. s is x or, if fusion
/// gives a residual, x + residual. x (N, K), (N, T, K) or (N, T, H, K), gamma (K) or absent, beta (K) or, as
/// always without gamma, absent, residual of x's shape or absent -> y, the factor 1 / sqrt(…) of each row,
/// unless `rms` its mean, and s if there is a residual. x, residual, y and s may be of a low type, all
/// else is f32. s is rounded to its type before it is normalised.
class LayerNorm final : public Operation {
 public:
  enum : size_t {
    kX,
    kGamma,     ///< or absent
    kBeta,      ///< or absent
    kResidual,  ///< or absent
    kInputs
  };
  enum : size_t {
    kY,
    kFactor,
    kMean,  ///< unless `rms`: the sum has its place then, see sum_output()
  };

  LayerNorm(double epsilon, bool is_rms) : eps(epsilon), rms(is_rms) {}
  std::string_view name() const override { return rms ? "rms_norm" : "layer_norm"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t input) const override {
    return input == kX || input == kResidual ? InputType::widest : InputType::f32;
  }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t output) const override {
    return (input == kX || input == kResidual) && (output == kY || output == sum_output());
  }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }
  std::vector<size_t> row_inputs(std::span<const TensorSpec> inputs) const override;

  /// The sum needs no summands.
  std::vector<TensorId> inputs_again(const Node& node) const override;

  size_t sum_output() const { return rms ? 2 : 3; }

  const double eps;
  const bool rms;
};

/// dy, s, gamma or absent, each row's factor and mean (absent with `rms`), and the gradient that s has
/// besides, or absent -> dx, which is the residual's gradient too, dgamma and dbeta.
class LayerNormBackward final : public Operation {
 public:
  enum : size_t {
    kDy,
    kSum,
    kGamma,  ///< or absent
    kFactor,
    kMean,     ///< absent with `rms`
    kOtherDy,  ///< the gradient that s has besides, or absent
    kInputs
  };
  enum : size_t { kDx, kDgamma, kDbeta };

  explicit LayerNormBackward(bool is_rms) : rms(is_rms) {}
  std::string_view name() const override { return rms ? "rms_norm_backward" : "layer_norm_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t output) const override {
    return (input == kDy || input == kSum || input == kOtherDy) && output == kDx;
  }

  const bool rms;
};

}  // namespace trainer
