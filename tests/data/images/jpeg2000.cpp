// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_jpeg2000.h"
#include "core/data/images/jpeg2000_layout.h"
#include "tests/catch.h"
#include "tests/data/images/decoding.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

std::string layout_error(const std::string& file) {
  const std::vector<uint8_t> bytes(file.begin(), file.end());
  try {
    read_jpeg2000_layout(bytes);
  } catch (const DecodeError& error) {
    return error.what();
  }
  return "";
}

/// The contents of the segments with the image's size and of how it is coded, after their lengths.
size_t size_at(const std::string& file) {
  return file.find("\xff\x51") + 4;
}
size_t coding_at(const std::string& file) {
  return file.find("\xff\x52") + 4;
}

TEST_CASE("kinds of JPEG 2000 that are not read are refused by name") {
  if (!reads_jpeg2000()) {
    CHECK_THAT(decode_error(stored_image("grey.jp2")), ContainsSubstring("built without OpenJPEG"));
    return;
  }
  CHECK_THAT(decode_error(stored_image("cmyk.jp2")), ContainsSubstring("YCC or CMYK"));
  const std::string file = stored_image("grey.jp2");
  CHECK_THAT(decode_error(with_number(file, size_at(file) + 36, {23})), ContainsSubstring("of 24 bits"));
  CHECK_THAT(decode_error(with_number(file, size_at(file) + 37, {2, 2})),
             ContainsSubstring("another resolution"));
}

TEST_CASE("a truncated JPEG 2000 file is refused, whichever part is wanted") {
  for (const char* name : {"lossless.jp2", "tiles.jp2", "lossy.jp2", "bare.j2k"}) {
    INFO(name);
    const std::string file = stored_image(name);
    for (size_t bytes = 12; bytes < file.size(); bytes += 11)
      CHECK_THAT(layout_error(file.substr(0, bytes)), Equals("the file ends within the image"));
    CHECK_THAT(layout_error(file.substr(0, file.size() - 1)), Equals("the file ends within the image"));
    CHECK(layout_error(file).empty());
  }
}

TEST_CASE("a forged JPEG 2000 file is refused before memory is taken") {
  CHECK_THAT(layout_error(stored_image("wide_palette.jp2")), ContainsSubstring("a palette of 9 components"));
  const std::string file = stored_image("precincts.jp2");
  const size_t size = size_at(file), coding = coding_at(file);
  const std::string large = with_number(file, size + 2, {0, 0, 0x40, 0, 0, 0, 0x10, 0});  // 16384 x 4096
  CHECK_THAT(layout_error(with_number(file, size + 18, {0, 0, 0, 1, 0, 0, 0, 1})),
             ContainsSubstring("of 1665 tiles, too many for its size"));
  CHECK_THAT(layout_error(with_number(file, size + 34, {0, 5})), ContainsSubstring("of 5 components"));
  CHECK_THAT(layout_error(with_number(file, size + 2, {0, 0, 0, 0})), Equals(""));
  const std::string one_tile = with_number(large, size + 18, {0, 0, 0x40, 0, 0, 0, 0x10, 0});
  CHECK(layout_error(one_tile).empty());
  // Precincts of 1 x 1; then ordinary ones, but the most layers.
  CHECK_THAT(layout_error(with_number(one_tile, coding + 10, {0, 0, 0, 0, 0, 0})),
             ContainsSubstring("precincts, too many for its size"));
  CHECK_THAT(layout_error(with_number(one_tile, coding + 2, {0xFF, 0xFF})),
             ContainsSubstring("65535 layers"));
  CHECK_THAT(layout_error(with_number(file, coding + 2, {0xFF, 0xFF})),
             ContainsSubstring("65535 layers do not fit into "));
  CHECK_THAT(layout_error(with_number(file, coding - 2, {0, 1})),
             ContainsSubstring("not as long as it says"));
  if (!reads_jpeg2000()) return;
  CHECK_THAT(decode_error(file, WholeView(), 45 * 37 - 1),
             Equals("the header says 45 x 37 pixels, more than data.max_pixels 1664"));
  CHECK_THAT(decode_error(with_number(file, size + 2, {0, 0, 0, 0})), ContainsSubstring("0 x 37 pixels"));
  CHECK_THAT(decode_error(with_number(one_tile, size + 2, {0xFF, 0xFF, 0xFF, 0xFF})),
             ContainsSubstring("4294967295 x 4096 pixels, more than data.max_pixels"));
}

}  // namespace
}  // namespace trainer
