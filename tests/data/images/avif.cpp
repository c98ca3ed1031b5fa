// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_avif.h"
#include "tests/catch.h"
#include "tests/data/images/decoding.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

TEST_CASE("a damaged AVIF is refused before memory is taken") {
  if (!reads_avif()) {
    CHECK_THAT(decode_error(stored_image("lossy.avif")), ContainsSubstring("built without libavif"));
    return;
  }
  for (const char* name : {"lossy.avif", "alpha.avif"}) {
    INFO(name);
    const std::string file = stored_image(name);
    for (size_t bytes = 12; bytes < file.size(); bytes += 7)
      CHECK(!decode_error(file.substr(0, bytes)).empty());
    CHECK_THAT(decode_error(file.substr(0, file.size() - 1), FixedView(cut(0, 0, 1, 1))),
               Equals("the file ends within the image"));
  }
  const std::string file = stored_image("lossy.avif");
  CHECK_THAT(decode_error(file, WholeView(), 45 * 37 - 1),
             Equals("the header says 45 x 37 pixels, more than data.max_pixels 1664"));
  // After the box's name come its version and flags, width and height.
  const size_t size = file.find("ispe") + 8;
  CHECK_THAT(decode_error(with_number(file, size, {0x7F})), ContainsSubstring("damaged AVIF data"));
  std::string damaged = file;
  for (size_t i = file.find("mdat") + 4; i < file.size(); ++i) damaged[i] = '\x5a';
  CHECK(!decode_error(damaged).empty());
}

}  // namespace
}  // namespace trainer
