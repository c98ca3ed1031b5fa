// SPDX-License-Identifier: Apache-2.0
#include "cuda/compiled_for.h"

#include "tests/catch.h"

using trainer::cuda::runs_on;

TEST_CASE("machine code runs on its own generation, PTX on all that come later") {
  CHECK(runs_on("90-real", 90));
  CHECK_FALSE(runs_on("90-real", 80));
  CHECK_FALSE(runs_on("90-real", 100));
  CHECK(runs_on("80-real", 86));
  CHECK_FALSE(runs_on("86-real", 80));
  const char* const shipped = "80-real,90-real,100-real,120";
  for (const int capability : {80, 86, 89, 90, 100, 103, 120, 121, 130}) CHECK(runs_on(shipped, capability));
  CHECK_FALSE(runs_on(shipped, 75));
  CHECK_FALSE(runs_on(shipped, 110));
  CHECK_FALSE(runs_on("", 90));
  CHECK(runs_on("native", 90));
}
