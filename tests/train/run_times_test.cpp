// SPDX-License-Identifier: Apache-2.0
#include "core/train/run_times.h"

#include "tests/catch.h"

namespace trainer {

TEST_CASE("times of runs: percentiles are measured values, by the nearest rank") {
  RunTimes times;
  for (int i = 100; i >= 1; --i) times.seconds.push_back(i);
  CHECK(times.percentile(0.5) == 50);
  CHECK(times.percentile(0.95) == 95);
  CHECK(times.percentile(0.99) == 99);
  CHECK(times.percentile(1) == 100);
  CHECK(times.total() == 5050);
  times.seconds = {3, 1, 2};
  CHECK(times.percentile(0.5) == 2);
  CHECK(times.percentile(0.99) == 3);
  times.seconds = {7};
  CHECK(times.percentile(0.01) == 7);
}

}  // namespace trainer
