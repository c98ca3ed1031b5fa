// SPDX-License-Identifier: Apache-2.0
#include "core/host/process.h"
#include "tests/catch.h"

namespace trainer {

TEST_CASE("processes share a host's cores, unless each was bound to its own") {
  CHECK(share_of_cores(64, 64, 1) == 64);
  CHECK(share_of_cores(64, 64, 8) == 8);
  CHECK(share_of_cores(12, 96, 8) == 12);  // bound by a launcher
  CHECK(share_of_cores(16, 64, 8) == 2);   // a container of 16 cores
  CHECK(share_of_cores(2, 2, 8) == 1);
  CHECK(cores_of_process(1) >= 1);
  CHECK(cores_of_process(1'000'000) == 1);
}

}  // namespace trainer
