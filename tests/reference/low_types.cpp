// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/low_types.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainer::reference {
namespace {

/// Digits after the first one, and exponents of the smallest normal and of the largest number.
struct Format {
  int digits, lowest, highest;
};

}  // namespace

double rounded(double value, DType dtype) {
  if (!std::isfinite(value) || value == 0) return value;
  const Format format = dtype == DType::f16 ? Format{10, -14, 15} : Format{7, -126, 127};
  const int exponent = std::max(std::ilogb(value), format.lowest);
  const double unit = std::ldexp(1.0, exponent - format.digits);
  const double nearest = std::nearbyint(value / unit) * unit;
  const bool fits = std::abs(nearest) < std::ldexp(1.0, format.highest + 1);
  return fits ? nearest : std::copysign(std::numeric_limits<double>::infinity(), value);
}

}  // namespace trainer::reference
