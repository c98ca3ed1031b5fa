// SPDX-License-Identifier: Apache-2.0
#include "core/search/normal.h"

#include <cmath>
#include <numbers>

namespace trainer {
namespace {

double lower_mass(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

/// log of the mass below x <= 0. erfc underflows near x = -38; from -30 on the asymptotic series has an
/// error below 2e-12.
double log_lower_mass(double x) {
  if (x > -30) return std::log(lower_mass(x));
  const double y = 1 / (x * x);
  return -0.5 * x * x - std::log(-x) - kLogSqrtTwoPi + std::log1p(y * (-1 + y * (3 + y * (-15 + 105 * y))));
}

/// The density's Taylor series around the middle, integrated: with (1 + |middle|) * width < 0.1 the first
/// term that is left out is below 4e-12.
double log_narrow_mass(double middle, double width) {
  const double m2 = middle * middle, w2 = width * width;
  const double terms = w2 * ((m2 - 1) / 24 + w2 * (m2 * (m2 - 6) + 3) / 1920);
  return -0.5 * m2 - kLogSqrtTwoPi + std::log(width) + std::log1p(terms);
}

}  // namespace

double log_normal_mass(double a, double b) {
  const double middle = 0.5 * (a + b), width = b - a;
  if ((1 + std::abs(middle)) * width < 0.1) return log_narrow_mass(middle, width);
  if (a > 0) return log_normal_mass(-b, -a);  // masses near 1 would cancel
  if (b > 0) return std::log1p(-lower_mass(a) - lower_mass(-b));
  const double below_b = log_lower_mass(b);
  return below_b + std::log1p(-std::exp(log_lower_mass(a) - below_b));
}

}  // namespace trainer
