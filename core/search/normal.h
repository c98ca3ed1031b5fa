// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trainer {

/// log(sqrt(2 * pi))
constexpr double kLogSqrtTwoPi = 0.91893853320467274178;

/// The logarithm of the standard normal distribution's mass in [a, b], a <= b: relative error of the mass
/// below 1e-11, also in the tails and for narrow intervals.
double log_normal_mass(double a, double b);

}  // namespace trainer
