// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>

#include "core/base/host_device.h"
#include "core/graph/operation.h"

namespace trainer {

/// Whether the gradient of a value passes the clamp at 0 and at `ceiling`, which is infinite if there is
/// none. NaN passes, as in elementwise.h.
template <class T>
TRAINER_HD bool passes_clamp(T value, T ceiling) {
  return !(value <= T(0) || (ceiling < T(INFINITY) && value >= ceiling));
}

/// Batch normalisation (Ioffe, Szegedy, ICML 2015) over N and the image: y = gamma * (x - mean) /
/// sqrt(variance + eps) + beta. x (N, C, H, W), gamma (C), beta (C), residual of x's shape or absent ->
/// y, mean (C), variance (C, biased). x, residual and y may be of a low type, all others are f32. Fusion lets
/// it add the residual and then clamp at zero, and at a ceiling, in the same pass, as Relu and Relu6 do. With
/// relu a mask marks 0 < y < ceiling and NaN. Moments may be given: as the table of all ranks', which then
/// determines the mean and variance outputs, or as the sums of x and of x^2 over each channel.
class BatchNorm final : public Operation {
 public:
  enum : size_t {
    kX,
    kGamma,
    kBeta,
    kResidual,  ///< of x's shape, or absent
    kTable,     ///< (R, 2, C), the moments of all ranks (ops/sync_batch_norm.h), or absent
    kSums,      ///< (C), of x, or absent as the next one is
    kSquares,   ///< (C), the sums of x^2
    kInputs
  };
  enum : size_t {
    kY,
    kMean,      ///< (C)
    kVariance,  ///< (C), biased
    kMask,      ///< only with `relu`
  };

  explicit BatchNorm(double epsilon, bool with_relu = false,
                     double highest = std::numeric_limits<double>::infinity())
      : eps(epsilon), relu(with_relu), ceiling(highest) {}
  std::string_view name() const override { return "batch_norm"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t input) const override {
    return input == kX || input == kResidual ? InputType::widest : InputType::f32;
  }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t output) const override { return input == kResidual && output == kY; }
  bool has_batch_statistics() const override { return true; }

  const double eps;
  const bool relu;
  const double ceiling;  ///< of relu6: 6
};

/// Whether moments are passed to a BatchNorm, so that it does not compute any.
inline bool is_measured(const Node& norm) {
  return norm.inputs[BatchNorm::kTable] != kNone || norm.inputs[BatchNorm::kSums] != kNone;
}

/// dy, x, gamma, mean, variance, mask if relu, another dy or absent -> dx, dgamma, dbeta and, if there
/// is one, the residual's gradient. The two dy are added (fusion gives the second); the mask selects where
/// they count. With the table of all ranks' sums dgamma and dbeta are not given.
class BatchNormBackward final : public Operation {
 public:
  enum : size_t {
    kDy,
    kX,
    kGamma,
    kMean,
    kVariance,
    kMask,     ///< with relu, else absent
    kOtherDy,  ///< is added to dy, or absent
    kTable,    ///< (R, 2, C), the sums of all ranks (ops/sync_batch_norm.h), or absent
    kInputs
  };
  enum : size_t {
    kDx,
    kDgamma,
    kDbeta,
    kDresidual,  ///< only with `residual`
  };

  BatchNormBackward(double epsilon, bool with_relu, bool with_residual)
      : eps(epsilon), relu(with_relu), residual(with_residual) {}
  std::string_view name() const override { return "batch_norm_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t output) const override;

  const double eps;
  const bool relu, residual;
};

/// The same with statistics that are given, which get no gradient: x, gamma, beta, mean, variance -> y.
class BatchNormInference final : public Operation {
 public:
  enum : size_t { kX, kGamma, kBeta, kMean, kVariance, kInputs };
  enum : size_t { kY };

  explicit BatchNormInference(double epsilon) : eps(epsilon) {}
  std::string_view name() const override { return "batch_norm_inference"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<TensorId> gradient(const Backward& backward) const override;
  InputType input_type(size_t input) const override {
    return input == kX ? InputType::widest : InputType::f32;
  }
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t output) const override { return input == kX && output == kY; }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;

  const double eps;
};

/// The convolution that also computes the normalisation after it: w (C, …), bias (C) or absent, gamma, beta,
/// mean, variance -> w * s and (bias - mean) * s + beta, with s = gamma / sqrt(variance + eps). The
/// statistics get no gradient.
class FoldBatchNorm final : public Operation {
 public:
  enum : size_t {
    kWeight,
    kBias,  ///< or absent
    kGamma,
    kBeta,
    kMean,
    kVariance,
    kInputs
  };
  enum : size_t { kFoldedWeight, kFoldedBias };

  explicit FoldBatchNorm(double epsilon) : eps(epsilon) {}
  /// s of a channel.
  double factor(float gamma, float variance) const { return gamma / std::sqrt(variance + eps); }
  /// The second result of a channel; `bias` is 0 if it is absent.
  static float folded_bias(double bias, float mean, double factor, float beta) {
    return static_cast<float>((bias - mean) * factor + beta);
  }
  std::string_view name() const override { return "fold_batch_norm"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<TensorId> gradient(const Backward& backward) const override;

  const double eps;
};

}  // namespace trainer
