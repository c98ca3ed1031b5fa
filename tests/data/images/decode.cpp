// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode.h"

#include <cmath>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/data/images/resample.h"
#include "tests/data/images/decoding.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

/// The pixel at (y, x) as red, green, blue.
std::vector<int> pixel(const Image& image, int64_t y, int64_t x) {
  std::vector<int> values;
  for (int64_t c = 0; c < image.channels; ++c) {
    values.push_back(image.pixels[static_cast<size_t>((c * image.height + y) * image.width + x)]);
  }
  return values;
}

bool is_near(const std::vector<int>& a, const std::vector<int>& b, int tolerance) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) > tolerance) return false;
  }
  return a.size() == b.size();
}

/// The expected result of decoding a colour drawing.
Image planar(const Drawing& drawing) {
  Image image;
  image.resize(3, drawing.height, drawing.width);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    const size_t plane = image.pixels.size() / 3;
    image.pixels[i] = drawing.values[i % plane * 3 + i / plane];
  }
  return image;
}

Image cut_out(const Image& image, const View& view) {
  Image copy = image;
  resample(copy, view);
  return copy;
}

Drawing plain(std::vector<int> colour, int size = 20) {
  return draw(size, size, static_cast<int>(colour.size()),
              [&](int, int, int c) { return colour[static_cast<size_t>(c)]; });
}

/// The hardest to compress: long codes and large values.
Drawing noise(int height, int width) {
  RandomStream random(8);
  return draw(height, width, 3, [&](int, int, int) { return static_cast<int>(random.next_below(2)) * 255; });
}

/// The EXIF standard says where the stored first row and first column are in the upright image.
Drawing stored_for(int orientation, Drawing upright) {
  const bool transposed = orientation >= 5;
  const int height = transposed ? upright.width : upright.height;
  const int width = transposed ? upright.height : upright.width;
  return draw(height, width, 3, [&](int row, int column, int c) {
    const int last_y = upright.height - 1, last_x = upright.width - 1;
    switch (orientation) {
      case 2:  // top, right
        return upright.at(row, last_x - column, c);
      case 3:  // bottom, right
        return upright.at(last_y - row, last_x - column, c);
      case 4:  // bottom, left
        return upright.at(last_y - row, column, c);
      case 5:  // left, top
        return upright.at(column, row, c);
      case 6:  // right, top
        return upright.at(column, last_x - row, c);
      case 7:  // right, bottom
        return upright.at(last_y - column, last_x - row, c);
      case 8:  // left, bottom
        return upright.at(last_y - column, row, c);
      default:
        return upright.at(row, column, c);
    }
  });
}

TEST_CASE("every EXIF orientation is turned upright, whole and windowed, JPEG and PNG") {
  const Drawing upright = landscape(45, 61);
  const Image expected = planar(upright);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    INFO("orientation " << orientation);
    const Drawing stored = stored_for(orientation, upright);
    PngOptions options;
    options.orientation = orientation;
    const std::string file = png(stored, options);
    CHECK(greatest_difference(decoded(file), expected) == 0);
    const View view = cut(3, 20, 30, 17);
    CHECK(greatest_difference(decoded(file, FixedView(view)), cut_out(expected, view)) == 0);
    View smaller = view;
    smaller.y.out = 13, smaller.x.out = 7;
    CHECK(greatest_difference(decoded(file, FixedView(smaller)), cut_out(expected, smaller)) <= 1);

    JpegOptions with_exif;
    with_exif.orientation = orientation;
    with_exif.quality = 98;
    const std::string photo = jpeg(stored, with_exif);
    CHECK(greatest_difference(decoded(photo), expected) <= 12);
    CHECK(greatest_difference(decoded(photo, FixedView(view)), cut_out(decoded(photo), view)) == 0);
  }
  JpegOptions impossible;
  impossible.orientation = 9;
  CHECK(decoded(jpeg(upright, impossible)).height == 45);
}

TEST_CASE("grey, RGB, CMYK and YCCK become the colours that they mean") {
  const std::vector<int> orange = {230, 120, 40};
  JpegOptions options;
  options.quality = 100;
  CHECK(is_near(pixel(decoded(jpeg(plain(orange), options)), 9, 9), orange, 2));
  options.colours = "rgb";
  CHECK(is_near(pixel(decoded(jpeg(plain(orange), options)), 9, 9), orange, 2));
  options.colours = "grey";
  CHECK(is_near(pixel(decoded(jpeg(plain({77}), options)), 9, 9), {77, 77, 77}, 1));

  // Ink 51 of 255 leaves 204 white; with black 55 that is 204 * 200 / 255 = 160.
  for (const char* colours : {"cmyk", "ycck"}) {
    options.colours = colours;
    options.adobe = true;
    CHECK(is_near(pixel(decoded(jpeg(plain({204, 255, 0, 200}), options)), 9, 9), {160, 200, 0}, 3));
  }
  options.colours = "cmyk";
  options.adobe = false;
  CHECK(is_near(pixel(decoded(jpeg(plain({51, 0, 255, 55}), options)), 9, 9), {160, 200, 0}, 3));
}

TEST_CASE("every kind of PNG becomes 8-bit colours") {
  const bool interlaced = GENERATE(false, true);
  PngOptions options;
  options.interlaced = interlaced;
  const Drawing colour = landscape(23, 31);
  CHECK(greatest_difference(decoded(png(colour, options)), planar(colour)) == 0);
  options.bits = 16;
  CHECK(greatest_difference(decoded(png(colour, options)), planar(colour)) == 0);
  CHECK(is_near(pixel(decoded(png(plain({200}), options)), 3, 3), {200, 200, 200}, 0));
  options.bits = 8;
  // The colours below transparency stay.
  CHECK(is_near(pixel(decoded(png(plain({10, 20, 30, 0}), options)), 3, 3), {10, 20, 30}, 0));
  CHECK(is_near(pixel(decoded(png(plain({90, 128}), options)), 3, 3), {90, 90, 90}, 0));
  CHECK(is_near(pixel(decoded(png(plain({91}), options)), 3, 3), {91, 91, 91}, 0));
  options.palette = {1, 2, 3, 200, 100, 50, 7, 8, 9};
  options.palette_alpha = {255, 0};
  for (int bits : {2, 4, 8}) {
    options.bits = bits;
    CHECK(is_near(pixel(decoded(png(plain({1}), options)), 3, 3), {200, 100, 50}, 0));
    CHECK(is_near(pixel(decoded(png(plain({2}), options)), 3, 3), {7, 8, 9}, 0));
  }
  options.palette.clear();
  options.palette_alpha.clear();
  options.bits = 1;
  CHECK(is_near(pixel(decoded(png(plain({1}), options)), 3, 3), {255, 255, 255}, 0));
}

TEST_CASE("whole images are libjpeg's, bit by bit, at every quality and sampling") {
  const auto [h, v] = GENERATE(table<int, int>({{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}}));
  JpegOptions options;
  options.h_samples = h, options.v_samples = v;
  for (int quality : {1, 5, 20, 50, 75, 90, 97, 100}) {
    for (int restart_rows : {0, 1, 2}) {
      options.quality = quality, options.restart_rows = restart_rows;
      INFO("quality " << quality << ", restart rows " << restart_rows << ", sampling " << h << "x" << v);
      const std::string file = jpeg(restart_rows == 2 ? noise(151, 203) : landscape(151, 203), options);
      REQUIRE(greatest_difference(decoded(file), by_libjpeg(file)) == 0);
    }
  }
}

TEST_CASE("a window is decoded to the same bits as the whole image's window") {
  const bool progressive = GENERATE(false, true);
  const auto [h, v] = GENERATE(table<int, int>({{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}}));
  INFO("sampling " << h << "x" << v << (progressive ? " progressive" : ""));
  JpegOptions options;
  options.h_samples = h, options.v_samples = v, options.progressive = progressive;
  options.restart_rows = h == 2 ? 3 : 0;
  for (const auto& [height, width] : {std::pair{131, 167}, std::pair{17, 33}, std::pair{1, 9}}) {
    const std::string file = jpeg(landscape(height, width), options);
    const Image whole = decoded(file);
    RandomStream random(5, static_cast<uint32_t>(width));
    for (int i = 0; i < 60; ++i) {
      const int64_t rows = 1 + random.next_below(height), columns = 1 + random.next_below(width);
      const View view =
          cut(random.next_below(height - rows + 1), random.next_below(width - columns + 1), rows, columns);
      INFO(view.y.begin << "+" << rows << " " << view.x.begin << "+" << columns);
      REQUIRE(greatest_difference(decoded(file, FixedView(view)), cut_out(whole, view)) == 0);
    }
  }
}

/// Decoding to a half, quarter or eighth averages pixels in its own way: on images without sharp edges the
/// result is within a few levels of resizing the whole image.
TEST_CASE("scaled decoding is near resizing the whole image") {
  const double sharpness = 0.02;
  const Drawing smooth = draw(640, 704, 3, [&](int y, int x, int c) {
    return 128 + static_cast<int>(60 * std::sin(sharpness * (x + c * y)) + 50 * std::cos(sharpness * y));
  });
  JpegOptions options;
  options.quality = 97;
  options.h_samples = options.v_samples = GENERATE(1, 2);
  const std::string file = jpeg(smooth, options);
  const Image whole = decoded(file);
  for (int64_t out : {320, 290, 160, 100, 80, 40, 7}) {
    View view = cut(5, 40, 635, 641);
    view.y.out = view.x.out = out;
    INFO(out);
    CHECK(greatest_difference(decoded(file, FixedView(view)), cut_out(whole, view)) <= 6);
  }
}

TEST_CASE("a file cut off anywhere is damaged, whichever part is wanted") {
  JpegOptions options;
  options.progressive = GENERATE(false, true);
  options.orientation = 6;
  const Drawing drawing = landscape(40, 40);
  PngOptions interlaced;
  interlaced.interlaced = options.progressive;
  for (const std::string& file : {jpeg(drawing, options), png(drawing, interlaced)}) {
    decoded(file);
    for (size_t bytes = 0; bytes < file.size(); ++bytes) {
      INFO("cut to " << bytes << " of " << file.size());
      CHECK(!decode_error(file.substr(0, bytes), FixedView(cut(0, 0, 3, 3))).empty());
      CHECK(!decode_error(file.substr(0, bytes)).empty());
      // As left by downloads that first reserved room for the whole file.
      if (bytes + 12 < file.size()) {
        CHECK(!decode_error(file.substr(0, bytes) + std::string(file.size() - bytes, '\0')).empty());
      }
    }
    // Bytes after an image are ignored: cameras append previews.
    CHECK(greatest_difference(decoded(file + "appended"), decoded(file)) == 0);
  }
}

TEST_CASE("what is no image, and headers that ask for too much") {
  CHECK_THAT(decode_error(""), Equals("the file is empty"));
  CHECK_THAT(decode_error("meeting at noon, bring the photos"),
             ContainsSubstring("neither JPEG, PNG, WebP, BMP, GIF"));
  CHECK_THAT(decode_error("\xFF\xD8\xFF and no more"), !Equals(""));

  std::string huge = jpeg(landscape(16, 16));
  const size_t frame = huge.find("\xFF\xC0");
  REQUIRE(frame != std::string::npos);
  huge.replace(frame + 5, 4, "\xFD\xE8\xFD\xE8");  // 65000 x 65000
  CHECK_THAT(decode_error(huge),
             ContainsSubstring("65000 x 65000 pixels, more than data.max_pixels 134217728"));
  CHECK_THAT(decode_error(jpeg(landscape(20, 30)), WholeView(), 599),
             ContainsSubstring("30 x 20 pixels, more than"));
  CHECK(decoded(jpeg(landscape(20, 30)), WholeView(), 600).width == 30);

  const std::string large = png(plain({0}, 1));
  std::string no_rows = large;
  no_rows.replace(20, 4, std::string(4, '\0'));
  CHECK(!decode_error(no_rows).empty());
  CHECK_THAT(decode_error(png(landscape(20, 30)), WholeView(), 599),
             ContainsSubstring("30 x 20 pixels, more than"));
}

TEST_CASE("damage within the image's data is found") {
  std::string photo = jpeg(landscape(64, 64));
  const size_t data = photo.find("\xFF\xDA");
  for (size_t i = data + 40; i < data + 80; ++i) photo[i] = '\xFF';
  CHECK(!decode_error(photo).empty());
  std::string drawing = png(landscape(64, 64));
  drawing[drawing.size() / 2] ^= 0x10;
  CHECK(!decode_error(drawing).empty());
}

}  // namespace
}  // namespace trainer
