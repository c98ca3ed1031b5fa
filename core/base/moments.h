// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/host_device.h"

namespace trainer {

/// A variance that is a smaller share of the mean square than this is the rounding of the sums: tensor cores
/// add in f32, and truncate. Its mean is 128 standard deviations.
constexpr double kLeastVarianceShare = 1.0 / 16384;

/// Whether nothing is certain of the variance that follows from the means of x squared and of x.
TRAINER_HD bool is_variance_lost(double mean_square, double mean) {
  return mean_square - mean * mean < kLeastVarianceShare * mean_square;
}

/// The variance; where nothing of it is certain, the least that is. NaN stays, and infinity becomes NaN.
TRAINER_HD double variance_of(double mean_square, double mean) {
  return is_variance_lost(mean_square, mean) ? kLeastVarianceShare * mean_square : mean_square - mean * mean;
}

}  // namespace trainer
