// SPDX-License-Identifier: Apache-2.0
#include "core/base/printable.h"

#include "tests/catch.h"

namespace trainer {

TEST_CASE("of control characters a terminal gets tabs and the ends of lines only") {
  CHECK(printable("plan\tlayers\n") == "plan\tlayers\n");
  CHECK(printable("\x1b[31mred\x07\r\x7f") == "?[31mred???");
  CHECK(printable("a\xc2\x9b"
                  "31mb\xc2\xa0\xc3\xa9\xc2") == "a?31mb\xc2\xa0\xc3\xa9\xc2");
  CHECK(printable(std::string("a\0b", 3)) == "a?b");
  CHECK(printable("").empty());
}

}  // namespace trainer
