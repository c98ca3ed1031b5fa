// SPDX-License-Identifier: Apache-2.0
#include "core/text/normal_form.h"

#include "tests/catch.h"

using namespace trainer;

TEST_CASE("normal form: U+11A7 is no final consonant, and stays behind a syllable") {
  std::string storage;
  const auto nfc = [&](std::string_view text) { return std::string(composed(text, storage)); };
  CHECK(nfc("\uAC00\u11A7") == "\uAC00\u11A7");
  CHECK(nfc("\u1100\u1161\u11A7") == "\uAC00\u11A7");
  CHECK(nfc("\u1100\u1161\u11A7\u11A8") == "\uAC00\u11A7\u11A8");
  CHECK(nfc("\u11A7\u11A7e\u0301\n\uAC00\u11A7") == "\u11A7\u11A7\u00E9\n\uAC00\u11A7");
  CHECK(nfc("\uAC00\u11A8") == "\uAC01");
  CHECK(nfc("plain") == "plain");
}
