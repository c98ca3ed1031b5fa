// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// Group normalisation (Wu, He, ECCV 2018): y = gamma * (x - mean) / sqrt(variance + eps) + beta, mean and
/// variance over a sample's image and the channels of one of `groups` groups. With one channel per group
/// this is instance normalisation. x (N, C, H, W), gamma (C) or absent, beta (C) or, as always without gamma,
/// absent -> y, mean (N, groups) and the factor 1 / sqrt(…) (N, groups). x and y may be of a low type, all
/// others are f32.
class GroupNorm final : public Operation {
 public:
  enum : size_t {
    kX,
    kGamma,  ///< or absent
    kBeta,   ///< or absent
    kInputs
  };
  enum : size_t { kY, kMean, kFactor };

  GroupNorm(int64_t number_of_groups, double epsilon) : groups(number_of_groups), eps(epsilon) {}
  std::string_view name() const override { return "group_norm"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t input) const override {
    return input == kX ? InputType::widest : InputType::f32;
  }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t output) const override { return input == kX && output == kY; }
  /// Only of instance normalisation: others compare channels.
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;

  const int64_t groups;
  const double eps;
};

/// dy, x, gamma or absent, mean (N, groups), factor (N, groups) -> dx, dgamma, dbeta.
class GroupNormBackward final : public Operation {
 public:
  enum : size_t {
    kDy,
    kX,
    kGamma,  ///< or absent
    kMean,
    kFactor,
    kInputs
  };
  enum : size_t { kDx, kDgamma, kDbeta };

  explicit GroupNormBackward(int64_t number_of_groups) : groups(number_of_groups) {}
  std::string_view name() const override { return "group_norm_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t output) const override {
    return (input == kDy || input == kX) && output == kDx;
  }

  const int64_t groups;
};

}  // namespace trainer
