// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

// Batch normalisation over the micro-batches of all ranks, as in PyTorch's SyncBatchNorm. Ranks exchange a
// table f32 (R, 2, C): two numbers of each channel from each of R ranks, all with the same number of values.
// A rank fills its own row and sets all others to zero, so that the sum over the ranks is the whole table. In
// f32 a sum of squares would not suffice: for a large mean the difference of two such sums has no digits
// left.

/// x (N, C, H, W) -> table of mean and biased variance, with this rank's row.
class BatchNormMoments final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kTable };

  explicit BatchNormMoments(int64_t count) : ranks(count) {}
  std::string_view name() const override { return "batch_norm_moments"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override { visit("ranks", ranks); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const int64_t ranks;
};

/// dy, x, mean, variance, mask or absent, another dy or absent (as BatchNormBackward's) -> table of the sums
/// of dy and of dy * (x - mean) / sqrt(variance + eps), with this rank's row. Further outputs are this rank's
/// second sums (dgamma) and first sums (dbeta), which are added up with all other gradients, and with a
/// residual its gradient, the masked dy.
class BatchNormSums final : public Operation {
 public:
  enum : size_t {
    kDy,
    kX,
    kMean,
    kVariance,
    kMask,     ///< or absent
    kOtherDy,  ///< or absent
    kInputs
  };
  enum : size_t {
    kTable,
    kDgamma,
    kDbeta,
    kDresidual,  ///< only with `residual`
  };

  BatchNormSums(double epsilon, int64_t count, bool with_residual)
      : eps(epsilon), ranks(count), residual(with_residual) {}
  std::string_view name() const override { return "batch_norm_sums"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t output) const override { return input == kDy && output == kDresidual; }

  const double eps;
  const int64_t ranks;
  const bool residual;
};

}  // namespace trainer
