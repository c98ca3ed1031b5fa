// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/host_device.h"

namespace trainer {

/// A variance that is a smaller share of the mean square than this is the rounding of the sums: tensor cores
/// add in f32, and truncate. Its mean is 128 standard deviations.
constexpr double kLeastVarianceShare = 1.0 / 16384;

/// The variance from the means of x squared and of x; where nothing of it is certain, the least that is. NaN
/// stays, and infinity becomes NaN.
TRAINER_HD double variance_of(double mean_square, double mean) {
  const double variance = mean_square - mean * mean, least = kLeastVarianceShare * mean_square;
  return variance < least ? least : variance;
}

}  // namespace trainer
