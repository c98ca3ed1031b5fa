// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "core/base/host_device.h"
#include "core/graph/operation.h"

namespace trainer {

/// The peak signal-to-noise ratio of images, 10 log10(255^2 / e) decibels, e being an image's mean squared
/// error in bytes over all its pixels and channels. x (N, C, H, W), targets of that shape, weights (N), and
/// scale (C), the numbers for a byte -> (1), the sum over images of weights[n] times their ratio. Images of
/// weight 0 do not count, even with NaN.
class Psnr final : public Operation {
 public:
  enum : size_t { kX, kTargets, kWeights, kScale, kInputs };
  enum : size_t { kSum };

  std::string_view name() const override { return "psnr"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  /// Of a mean squared error in bytes. At most 100 dB, an error of a four-hundredth of a grey level: the
  /// ratio of an exact copy would be infinite, and so would any mean.
  static TRAINER_HD double decibels(double error) {
    constexpr double kPeak = 255.0 * 255.0, kLeast = kPeak * 1e-10;
    return 10 * ::log10(kPeak / (error < kLeast ? kLeast : error));
  }
};

}  // namespace trainer
