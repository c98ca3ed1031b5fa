// SPDX-License-Identifier: Apache-2.0
#include "core/base/math.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include "tests/catch.h"

#include "core/base/moments.h"

using namespace trainer;

namespace {

constexpr float kMathInfinity = std::numeric_limits<float>::infinity();
constexpr float kMathNan = std::numeric_limits<float>::quiet_NaN();

/// Calls visit(x) for floats of every size and sign, denormals included, infinities and NaN not.
template <class Visit>
void sweep(const Visit& visit) {
  constexpr uint64_t kStride = 1009;  // a prime: no pattern in the low bits is missed
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kStride) {
    const float x = math::bits_to_float(static_cast<int32_t>(static_cast<uint32_t>(bits)));
    if (std::isfinite(x)) visit(x);
  }
}

double relative(double found, double expected) {
  return std::abs(found - expected) / std::abs(expected);
}

bool is_negative_zero(float x) {
  return x == 0 && std::signbit(x);
}

}  // namespace

TEST_CASE("exp is within its bound, and clamps where its argument does") {
  double worst = 0;
  sweep([&](float x) {
    if (x >= -87.3f && x <= 88.7f)
      worst = std::max(worst, relative(math::exp(x), std::exp(static_cast<double>(x))));
    if (x < -87.3f) CHECK(math::exp(x) == math::exp(-87.3f));
    if (x > 88.7f) CHECK(math::exp(x) == math::exp(88.7f));
  });
  CHECK(worst < 2e-7);
  CHECK(math::exp(0.0f) == 1.0f);
  CHECK(math::exp(-0.0f) == 1.0f);
  CHECK(math::exp(kMathInfinity) == math::exp(88.7f));
  CHECK(math::exp(-kMathInfinity) == math::exp(-87.3f));
  CHECK(std::isfinite(math::exp(kMathInfinity)));
  CHECK(std::isnormal(math::exp(-kMathInfinity)));
  CHECK(std::isnan(math::exp(kMathNan)));
}

TEST_CASE("tanh is within its bound everywhere") {
  double worst = 0;
  sweep([&](float x) {
    if (x != 0) worst = std::max(worst, relative(math::tanh(x), std::tanh(static_cast<double>(x))));
    if (std::abs(math::tanh(x)) > 1) FAIL("beyond 1 at " << x);
  });
  CHECK(worst < 3e-7);
  CHECK(math::tanh(kMathInfinity) == 1.0f);
  CHECK(math::tanh(-kMathInfinity) == -1.0f);
  CHECK(math::tanh(-0.0f) == 0.0f);
  CHECK(std::isnan(math::tanh(kMathNan)));
}

TEST_CASE("erf is within its bound everywhere") {
  double worst = 0;
  sweep([&](float x) {
    worst = std::max(worst, std::abs(math::erf(x) - std::erf(static_cast<double>(x))));
    if (math::erf(-x) != -math::erf(x)) FAIL("not odd at " << x);
  });
  CHECK(worst < 2e-7);
  CHECK(math::erf(kMathInfinity) == Approx(1.0f));
  CHECK(is_negative_zero(math::erf(-0.0f)));
  CHECK(std::isnan(math::erf(kMathNan)));
}

TEST_CASE("a variance of large sums has a least share of the mean square, and keeps NaN") {
  CHECK(variance_of(5, 2) == 1);
  CHECK(variance_of(4, 2) == 4.0 / 16384);
  CHECK(variance_of(4 - 1e-3, 2) == (4 - 1e-3) / 16384);  // below zero
  CHECK(variance_of(0, 0) == 0);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   inf = std::numeric_limits<double>::infinity();
  CHECK(std::isnan(variance_of(nan, 1)));
  CHECK(std::isnan(variance_of(1, nan)));
  CHECK(std::isnan(variance_of(inf, inf)));
}
