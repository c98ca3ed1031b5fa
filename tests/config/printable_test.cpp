// SPDX-License-Identifier: Apache-2.0
#include "core/base/printable.h"

#include "tests/catch.h"

namespace trainer {

TEST_CASE(
    "of control characters a terminal gets tabs and the ends of lines only, the others as they are written") {
  CHECK(printable("plan\tlayers\n") == "plan\tlayers\n");
  CHECK(printable("\x1b[31mred\x07\r\x7f") == "\\x1b[31mred\\x07\\x0d\\x7f");
  CHECK(printable("a\xc2\x9b"
                  "31mb\xc2\xa0\xc3\xa9\xc2") == "a\\u009b31mb\xc2\xa0\xc3\xa9\xc2");
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(printable("").empty());
}

TEST_CASE("a name is shown on one line, with what could not be seen") {
  CHECK(one_line("two\nlines\tand \x1b[2J") == "two\\nlines\\tand \\x1b[2J");
  CHECK(one_line("\u009b 1\u200b2 \u202e3\u2066 \ufeff") == "\\u009b 1\\u200b2 \\u202e3\\u2066 \\ufeff");
  CHECK(one_line("\u2014 \u20ac \ufefe na\u00efve") == "\u2014 \u20ac \ufefe na\u00efve");
}

}  // namespace trainer
