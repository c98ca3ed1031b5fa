// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include "tests/catch.h"

#include "tests/ops/functions.h"

using namespace trainer;

TEST_CASE("element-wise functions in float follow those in double over wide ranges") {
  for_each_functor([](auto f) {
    INFO(f.kName);
    for (float x = 1e-38f; x < 1e30f; x *= 1.37f) {
      for (const float at : {x, -x}) {
        INFO("x = " << at);
        const double y = f(static_cast<double>(at));
        // The part that exp's clamp or a difference of nearly equal numbers loses is below 1e-6 of max(1,
        // |x|).
        REQUIRE(std::abs(f(at) - y) <= 4e-7 * std::abs(y) + 4e-7 * std::min(std::abs(at), 10.0f) + 1e-37);
        const bool reads_y = f.kGradientReads == elementwise::Reads::y;
        const double slope = f.gradient(reads_y ? y : static_cast<double>(at), 1.0);
        const float found = f.gradient(reads_y ? static_cast<float>(y) : at, 1.0f);
        REQUIRE(std::abs(found - slope) <= 2e-6);
      }
    }
  });
}

TEST_CASE("a NaN goes through every element-wise function, or is its zero, but never becomes a number") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for_each_functor([&](auto f) {
    INFO(f.kName);
    const float y = f(nan);
    CHECK((std::isnan(y) || y == 0));
  });
}
