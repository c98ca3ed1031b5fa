// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <map>
#include "tests/catch.h"

#include "core/data/images/decode_gif.h"
#include "core/data/images/image_files.h"
#include "core/data/images/resample.h"
#include "tests/data/images/decoding.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

/// How many files of each type have their pixels beside them.
const std::map<std::string, int> kStored = {{".webp", 5},  {".bmp", 13}, {".gif", 10}, {".tif", 43},
                                            {".avif", 13}, {".jp2", 11}, {".j2k", 1},  {".png", 2}};

/// libavif's versions convert colours with different filters.
int allowed_difference(const std::string& type) {
  return type == ".avif" ? 2 : 0;
}

TEST_CASE(
    "WebP, BMP, GIF, TIFF, AVIF and JPEG 2000 files have the pixels that Pillow reads, whole and windowed") {
  std::map<std::string, int> count;
  for (const auto& entry : std::filesystem::directory_iterator(kStoredImages)) {
    const std::string name = entry.path().filename().string(), image = entry.path().stem().string();
    if (!name.ends_with(".rgb") || name.starts_with("turned") || !is_image_name(image)) continue;
    INFO(name);
    const std::string file = stored_image(image), type = std::filesystem::path(image).extension().string();
    const Image whole = decoded(file);
    Image expected = whole;
    const std::string pixels = stored_image(name);
    REQUIRE(pixels.size() == whole.pixels.size());
    expected.pixels.assign(pixels.begin(), pixels.end());
    CHECK(greatest_difference(whole, expected) <= allowed_difference(type));
    for (const View& view : {cut(3, 2, 11, 9), cut(8, 5, 1, 1), cut(5, 7, 18, 12), cut(0, 1, 2, 17)}) {
      Image part = whole;
      resample(part, view);
      CHECK(greatest_difference(decoded(file, FixedView(view)), part) == 0);
    }
    ++count[type];
  }
  for (const auto& [type, stored] : kStored) CHECK(count[type] == (is_image_name("a" + type) ? stored : 0));
}

TEST_CASE("a WebP is turned upright as its EXIF says") {
  const Image upright = decoded(stored_image("turned.webp"));
  const std::string stored = stored_image("turned.webp.rgb");
  REQUIRE((upright.height == 19 && upright.width == 23));
  for (int64_t y = 0; y < 19; ++y) {
    for (int64_t x = 0; x < 23; ++x) {
      const auto from = static_cast<size_t>((22 - x) * 19 + y);
      REQUIRE(upright.pixels[static_cast<size_t>(y * 23 + x)] == static_cast<uint8_t>(stored[from]));
    }
  }
}

TEST_CASE("kinds of WebP and BMP that are not read are refused by name") {
  CHECK_THAT(decode_error(stored_image("animated.webp")), ContainsSubstring("an animated WebP"));
  const std::string palette = stored_image("palette8.bmp"), colours = stored_image("rgb24.bmp");
  CHECK_THAT(decode_error(with_number(palette, 30, {1})), ContainsSubstring("compression RLE8"));
  CHECK_THAT(decode_error(with_number(palette, 30, {2})), ContainsSubstring("compression RLE4"));
  CHECK_THAT(decode_error(with_number(colours, 30, {4})), ContainsSubstring("compression JPEG"));
  CHECK_THAT(decode_error(with_number(colours, 30, {9})), ContainsSubstring("compression number 9"));
  CHECK_THAT(decode_error(with_number(colours, 28, {16})), ContainsSubstring("a BMP of 16 bits a pixel"));
  CHECK_THAT(decode_error(with_number(colours, 14, {41})), ContainsSubstring("a header of 41 bytes"));
  CHECK_THAT(decode_error(with_number(stored_image("fields32.bmp"), 54, {0xF8})),
             ContainsSubstring("the bit field ff0000f8"));
  CHECK_THAT(decode_error("RIFF\x10\0\0\0AVI "), ContainsSubstring("neither JPEG, PNG, WebP, BMP, GIF"));
}

TEST_CASE("damaged WebP and BMP files are refused before memory is taken") {
  for (const char* name : {"lossy.webp", "lossless.webp", "rgb24.bmp", "palette4.bmp"}) {
    INFO(name);
    const std::string file = stored_image(name);
    for (size_t bytes = 2; bytes + 4 < file.size(); bytes += 7)
      CHECK(!decode_error(file.substr(0, bytes)).empty());
    CHECK_THAT(decode_error(file.substr(0, file.size() - 4)), Equals("the file ends within the image"));
    CHECK_THAT(decode_error(file, WholeView(), 19 * 23 - 1),
               Equals("the header says 19 x 23 pixels, more than "
                      "data.max_pixels 436"));
    CHECK(decoded(file, WholeView(), 19 * 23).width == 19);
  }
  const std::string colours = stored_image("rgb24.bmp");
  CHECK_THAT(decode_error(with_number(colours, 18, {0xFF, 0xFF, 0xFF, 0x7F})),
             ContainsSubstring("2147483647 x 23 pixels, more than"));
  CHECK_THAT(decode_error(with_number(colours, 18, {0xFF, 0xFF, 0xFF, 0xFF})),
             ContainsSubstring("-1 x 23 pixels"));
  CHECK_THAT(decode_error(with_number(stored_image("palette4.bmp"), 46, {5})),
             ContainsSubstring("of a palette of 5"));
  std::string lossy = stored_image("lossless.webp");
  for (size_t i = 40; i < lossy.size(); ++i) lossy[i] = static_cast<char>(lossy[i] ^ 0x5A);
  CHECK(!decode_error(lossy).empty());
}

TEST_CASE("a damaged GIF is refused before memory is taken") {
  if (!reads_gif()) {
    CHECK_THAT(decode_error(stored_image("plain.gif")), ContainsSubstring("built without giflib"));
    return;
  }
  for (const char* name : {"plain.gif", "interlaced.gif", "part_transparent.gif"}) {
    INFO(name);
    const std::string file = stored_image(name);
    // The last two bytes end the data and the file, which the frame does not need.
    for (size_t bytes = 4; bytes + 2 < file.size(); ++bytes)
      CHECK_THAT(decode_error(file.substr(0, bytes)), Equals("the file ends within the image"));
    CHECK_THAT(decode_error(file.substr(0, file.size() - 3), FixedView(cut(0, 0, 1, 1))),
               Equals("the file ends within the image"));
  }
  const std::string plain = stored_image("plain.gif");
  CHECK_THAT(decode_error(with_number(plain, 6, {0xFF, 0xFF, 0xFF, 0xFF})),
             ContainsSubstring("65535 x 65535 pixels, more than data.max_pixels"));
  CHECK_THAT(decode_error(plain, WholeView(), 19 * 23 - 1),
             Equals("the header says 19 x 23 pixels, more than data.max_pixels 436"));
  CHECK_THAT(decode_error(std::string("GIF89a\1\0\1\0\0\0\0;", 14)), Equals("a GIF without a frame"));
  const std::string empty_frame("GIF89a\1\0\1\0\0\0\0,\0\0\0\0\0\0\1\0\0\2\2L\1\0;", 29);
  CHECK_THAT(decode_error(empty_frame), Equals("a GIF with a frame of 0 x 1 pixels"));
  std::string damaged = plain;
  for (size_t i = plain.size() / 2 + 200; i < damaged.size(); i += 3) damaged[i] = '\x7f';
  CHECK(!decode_error(damaged).empty());
}

TEST_CASE("DICOM and HEIC files are refused with the command that converts them") {
  const std::string file = std::string(128, '\0') + "DICM" + std::string(100, '\1');
  CHECK_THAT(decode_error(file), ContainsSubstring("a DICOM file") && ContainsSubstring("dcmj2pnm"));
  CHECK_THAT(decode_error(file.substr(0, 131)), ContainsSubstring("by its first bytes"));
  CHECK_THAT(decode_error(std::string("\0\0\0\x18"
                                      "ftypheic\0\0\0\0mif1heic",
                                      24)),
             ContainsSubstring("a HEIC file") && ContainsSubstring("heif-convert"));
}

}  // namespace
}  // namespace trainer
