// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/parts.h"

#include "cpu/backend.h"
#include "tests/catch.h"

using namespace trainer;

TEST_CASE("ranks that share operations on CPUs compute parts of what one process does") {
  check_parts([](ProcessGroup* group) { return make_cpu_backend(3, nullptr, false, group); });
}
