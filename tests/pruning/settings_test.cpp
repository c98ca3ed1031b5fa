// SPDX-License-Identifier: Apache-2.0
#include "core/pruning/settings.h"

#include <cmath>

#include "tests/catch.h"

using namespace trainer;

TEST_CASE("pruning: the share follows the cubic schedule in steps of its own") {
  const PruningSettings settings{.sparsity = 0.8, .begin = 100, .end = 500, .every = 100};
  CHECK(settings.share_after(0) == 0);
  CHECK(settings.share_after(100) == 0);
  CHECK(settings.share_after(199) == 0);
  CHECK(settings.share_after(200) == Approx(0.8 * (1 - std::pow(0.75, 3))));
  CHECK(settings.share_after(299) == settings.share_after(200));
  CHECK(settings.share_after(499) == Approx(0.8 * (1 - std::pow(0.25, 3))));
  CHECK(settings.share_after(500) == 0.8);
  CHECK(settings.share_after(9999) == 0.8);
  for (int64_t step = 1; step <= 600; ++step)
    CHECK(settings.is_due(step) == (settings.share_after(step) != settings.share_after(step - 1)));
}

TEST_CASE("pruning: at once if it begins where it ends") {
  const PruningSettings settings{.sparsity = 0.5, .begin = 7, .end = 7, .every = 3};
  CHECK(settings.share_after(6) == 0);
  CHECK(settings.share_after(7) == 0.5);
  CHECK(settings.is_due(7));
  CHECK_FALSE(settings.is_due(10));
  CHECK(PruningSettings{.sparsity = 0.5}.share_after(0) == 0.5);
}

TEST_CASE("pruning: the last update is at the end, wherever the others are") {
  const PruningSettings settings{.sparsity = 0.9, .begin = 0, .end = 10, .every = 4};
  for (int64_t step = 0; step < 12; ++step)
    CHECK(settings.is_due(step) == (step == 4 || step == 8 || step == 10));
  CHECK(settings.share_after(9) == Approx(0.9 * (1 - std::pow(0.2, 3))));
}
