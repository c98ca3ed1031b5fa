// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

// Batch normalisation of a product y = x wT that is only stored normalised. With x (R, K), w (C, K), s the
// sums of x over its rows and gram = xT x (K, K), each channel c of y has
//   mean = w[c] . s / R           variance = w[c] gram w[c]T / R - mean^2
// though at least a share of the mean square (core/base/moments.h).
// So the normalisation goes into the weights of the product. Its gradient needs y only in sums over rows.
// These follow from gram and from p = gT x, with g the gradient of the normalisation's output.

/// w (C, K), t = w gram (C, K), s (K), gamma (C), beta (C), all f32 -> the weights (C, K) and the bias (C) of
/// the product that normalises, both of type `dtype`; mean (C) and variance (C, biased), f32. If beta is
/// not finite, neither are the weights.
class GramBatchNorm final : public Operation {
 public:
  enum : size_t {
    kWeight,
    kProduct,  ///< t
    kSums,     ///< s
    kGamma,
    kBeta,
    kInputs
  };
  enum : size_t { kFoldedWeight, kFoldedBias, kMean, kVariance };

  GramBatchNorm(double epsilon, int64_t rows_of_x, DType of_weights)
      : eps(epsilon), rows(rows_of_x), dtype(of_weights) {}
  std::string_view name() const override { return "gram_batch_norm"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool has_batch_statistics() const override { return true; }

  const double eps;
  const int64_t rows;  ///< R
  const DType dtype;
};

/// w, t, s as before, p = gT x (C, K), the sums of g over its rows (C), gamma, mean, variance, all f32 -> dw
/// (C, K) and dgamma (C), f32; and for the gradient of x, in `dtype`, d (C, K) and e (1, C): dx = g folded +
/// (x (dT w)T + e w) / scale, folded being the weights that normalise. dbeta is the sum of g.
///
/// With i = 1 / sqrt(variance + eps), k = gamma i, a = sum of g / R and b = i dgamma / R, the gradient of y
/// is k (g - a - b (y - mean)). Hence dgamma = i (p . w - mean * sum of g), dw = k (p - a s - b (t - mean
/// s)), d = -scale k b w and e = -scale k (a - b mean). These are means over all rows, which need a scale in
/// f16.
class GramBatchNormBackward final : public Operation {
 public:
  enum : size_t {
    kWeight,
    kProduct,          ///< t
    kSums,             ///< s
    kGradientProduct,  ///< p
    kGradientSums,     ///< (C), of g
    kGamma,
    kMean,
    kVariance,
    kInputs
  };
  enum : size_t {
    kDweight,
    kDgamma,
    kDataProduct,  ///< d
    kDataSums,     ///< e
  };

  GramBatchNormBackward(double epsilon, int64_t rows_of_x, DType of_weights, double of_means = 1)
      : eps(epsilon), rows(rows_of_x), dtype(of_weights), scale(of_means) {}
  std::string_view name() const override { return "gram_batch_norm_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const double eps;
  const int64_t rows;
  const DType dtype;
  const double scale;
};

}  // namespace trainer
