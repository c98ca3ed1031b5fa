// SPDX-License-Identifier: Apache-2.0
#include "core/storage/stored_type.h"

#include <cstdint>
#include "tests/catch.h"

using namespace trainer;

TEST_CASE("the bytes of a stored tensor, and shapes that have none") {
  CHECK(tensor_bytes({}, "F32") == 4);
  CHECK(tensor_bytes({3, 5}, "BF16") == 30);
  CHECK(tensor_bytes({0, 7}, "F64") == 0);
  CHECK(tensor_bytes({2}, "F4") == 1);
  CHECK_FALSE(tensor_bytes({3}, "F4"));  // the last byte is half full
  CHECK_FALSE(tensor_bytes({-1, -4}, "F32"));
  CHECK_FALSE(tensor_bytes({INT64_MAX / 2, 3}, "U8"));
  CHECK(element_bits("F6_E2M3") == 6);
  CHECK(element_bits("Q8") == 0);
  CHECK(element_bytes("I64") == 8);
}
