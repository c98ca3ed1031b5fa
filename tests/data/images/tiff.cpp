// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_tiff.h"
#include "tests/catch.h"
#include "tests/data/images/decoding.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

/// The value of entry `index` of the directory, which follows the head in files of the fixtures' own writer.
size_t entry_value(size_t index) {
  return 10 + 12 * index + 8;
}

TEST_CASE("kinds of TIFF that are not read are refused by name") {
  if (!reads_tiff()) {
    CHECK_THAT(decode_error(stored_image("lzw.tif")), ContainsSubstring("built without libtiff"));
    return;
  }
  CHECK_THAT(decode_error(stored_image("float.tif")), ContainsSubstring("only integers of up to 16 bits"));
  CHECK_THAT(decode_error(stored_image("lab.tif")), ContainsSubstring("photometric interpretation 8"));
  CHECK_THAT(decode_error(stored_image("lzma.tif")), ContainsSubstring("a TIFF with compression LZMA"));
  CHECK_THAT(decode_error(stored_image("signed16.tif")), ContainsSubstring("begin data.augment"));
  const std::string grey = stored_image("grey16.tif");
  CHECK_THAT(decode_error(with_number(grey, entry_value(2), {12})),
             ContainsSubstring("1 samples of 12 bits"));
  CHECK_THAT(decode_error(with_number(grey, entry_value(4), {2})), ContainsSubstring("1 samples of 16 bits"));
}

TEST_CASE("a truncated TIFF is refused, whichever part is wanted") {
  if (!reads_tiff()) return;
  for (const char* name :
       {"none.tif", "lzw.tif", "jpeg.tif", "group4.tif", "tiles.tif", "big.tif", "grey16.tif"}) {
    INFO(name);
    const std::string file = stored_image(name);
    // Pillow's writer adds up to 4 bytes after the image.
    for (size_t bytes = 4; bytes + 4 < file.size(); bytes += 13)
      CHECK_THAT(decode_error(file.substr(0, bytes)), Equals("the file ends within the image"));
    CHECK_THAT(decode_error(file.substr(0, file.size() - 5), FixedView(cut(0, 0, 1, 1))),
               Equals("the file ends within the image"));
  }
}

TEST_CASE("a forged or damaged TIFF is refused before memory is taken") {
  if (!reads_tiff()) return;
  const std::vector<uint8_t> huge = {0xFF, 0xFF, 0xFF, 0x7F};
  const std::string planar = stored_image("planar.tif"), tiles = stored_image("tiles.tif");
  CHECK_THAT(decode_error(with_number(planar, entry_value(0), huge)),
             ContainsSubstring("2147483647 x 37 pixels, more than data.max_pixels"));
  CHECK_THAT(decode_error(with_number(planar, entry_value(0), {0, 0, 0, 0})), !Equals(""));
  CHECK_THAT(decode_error(with_number(tiles, entry_value(7), {0, 0, 0, 0x10})),
             Equals("a TIFF with tiles of 268435456 x 16 pixels"));
  CHECK_THAT(decode_error(tiles, WholeView(), 45 * 37 - 1),
             Equals("the header says 45 x 37 pixels, more than data.max_pixels 1664"));
  for (const char* name : {"lzw.tif", "deflate.tif", "zstd.tif", "jpeg.tif"}) {
    INFO(name);
    std::string damaged = stored_image(name);
    for (size_t i = 20; i < damaged.size() / 2; ++i) damaged[i] = static_cast<char>(damaged[i] ^ 0x5A);
    CHECK(!decode_error(damaged).empty());
  }
}

}  // namespace
}  // namespace trainer
