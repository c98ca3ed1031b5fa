// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include "tests/catch.h"

#include "core/data/images/decode_jpeg2000.h"
#include "core/data/images/decode_tiff.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/resample.h"
#include "core/data/images/statistics.h"
#include "tests/data/images/decoding.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

/// The fixtures' window.
constexpr PixelWindow kFixtureWindow = {1000, 40000};

const WholeView kWholeView{};

class Windowed final : public ViewChooser {
 public:
  explicit Windowed(const PixelWindow& window, const ViewChooser& chooser = kWholeView)
      : window_(window), chooser_(chooser) {}
  View choose(int64_t height, int64_t width) const override { return chooser_.choose(height, width); }
  const PixelWindow* pixel_window() const override { return &window_; }

 private:
  PixelWindow window_;
  const ViewChooser& chooser_;
};

std::vector<uint8_t> stored_bytes(const std::string& name, bool is_grey) {
  const std::string bytes = stored_image(name);
  std::vector<uint8_t> all;
  for (int c = 0; c < (is_grey ? 3 : 1); ++c) all.insert(all.end(), bytes.begin(), bytes.end());
  return all;
}

TEST_CASE("a window spreads its values over all bytes and clips the others") {
  const PixelWindow window = {1000, 3000};
  for (const auto& [value, byte] : {std::pair{1000.0, 0},
                                    {3000.0, 255},
                                    {2000.0, 128},
                                    {1500.0, 64},
                                    {1003.0, 0},
                                    {1004.0, 1},
                                    {2996.0, 254},
                                    {2997.0, 255},
                                    {999.0, 0},
                                    {0.0, 0},
                                    {3001.0, 255},
                                    {65535.0, 255}})
    CHECK(int{window.byte_of(value)} == byte);
  CHECK(int{PixelWindow{-100, 100}.byte_of(0)} == 128);
  CHECK(int{PixelWindow{0.25, 0.75}.byte_of(0)} == 0);
  CHECK(int{PixelWindow{0.25, 0.75}.byte_of(1)} == 255);
  constexpr double kMost = std::numeric_limits<double>::max();
  CHECK(int{PixelWindow{0, kMost}.byte_of(65535)} == 0);
  const std::vector<uint8_t> same = PixelWindow{0, 255}.table(255);
  for (size_t value = 0; value < 256; ++value) CHECK(size_t{same[value]} == value);
}

TEST_CASE("the window of a 16-bit image sees all its bits") {
  std::vector<std::string> grey = {"grey16.png"}, colour = {"rgb16.png"};
  if (reads_tiff()) {
    grey.insert(grey.end(), {"grey16.tif", "grey16_big_endian.tif"});
    colour.insert(colour.end(), {"rgb16.tif", "rgb16_big_endian.tif"});
  }
  if (reads_jpeg2000()) grey.push_back("grey16.jp2");
  for (const auto& [names, is_grey] : {std::pair{grey, true}, std::pair{colour, false}}) {
    for (const std::string& name : names) {
      INFO(name);
      const std::string file = stored_image(name);
      const Image whole = decoded(file, Windowed(kFixtureWindow));
      CHECK(whole.pixels == stored_bytes(is_grey ? "grey16.window" : "rgb16.window", is_grey));
      const FixedView part(cut(3, 2, 11, 9));
      Image expected = whole;
      resample(expected, part.choose(0, 0));
      CHECK(greatest_difference(decoded(file, Windowed(kFixtureWindow, part)), expected) == 0);
    }
  }
}

TEST_CASE("the window of signed integers may begin below zero") {
  if (!reads_tiff()) return;
  const Image image = decoded(stored_image("signed16.tif"), Windowed({-9000, 20000}));
  CHECK(image.pixels == stored_bytes("signed16.window", true));
}

TEST_CASE("a narrow window separates values that share their high byte") {
  const Image image = decoded(stored_image("grey16.png"), Windowed({256 * 70, 256 * 70 + 255}));
  std::vector<bool> seen(256);
  for (const uint8_t pixel : image.pixels) seen[pixel] = true;
  const Image ordinary = decoded(stored_image("grey16.png"));
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    if (ordinary.pixels[i] < 69) CHECK(image.pixels[i] == 0);
    if (ordinary.pixels[i] > 71) CHECK(image.pixels[i] == 255);
  }
  CHECK(std::count(seen.begin(), seen.end(), true) > 2);
}

TEST_CASE("the window of an image of bytes sees bytes, before it is scaled") {
  const PixelWindow window = {60, 190};
  std::vector<std::string> files = {jpeg(landscape(30, 40)),
                                    png(landscape(30, 40)),
                                    png(landscape(30, 40, 1)),
                                    png(landscape(30, 40, 2), {.interlaced = true}),
                                    jpeg(landscape(30, 40), {.orientation = 6}),
                                    stored_image("palette8.bmp"),
                                    stored_image("lossy.webp")};
  if (reads_tiff()) {
    for (const char* name : {"grey8.tif", "palette.tif", "cmyk.tif", "multiplied.tif", "grey4.tif"})
      files.push_back(stored_image(name));
  }
  for (const std::string& file : files) {
    Image expected = decoded(file);
    window.apply(expected);
    CHECK(greatest_difference(decoded(file, Windowed(window)), expected) == 0);
    const FixedView scaled({{2, 10, 2, 12, 5}, {1, 12, 1, 13, 4}});
    const Image part = decoded(file, Windowed(window, scaled));
    resample(expected, scaled.choose(0, 0));
    CHECK(greatest_difference(part, expected) <= 1);  // turned before or after it is scaled
  }
}

TEST_CASE("an interlaced 16-bit image has the window of one that is not") {
  for (const int channels : {1, 2, 3, 4}) {
    const Drawing drawing = landscape(13, 17, channels);
    const Windowed window(kFixtureWindow);
    const Image rows = decoded(png(drawing, {.bits = 16}), window);
    CHECK(decoded(png(drawing, {.bits = 16, .interlaced = true}), window).pixels == rows.pixels);
    CHECK(int{rows.pixels[0]} == int{kFixtureWindow.byte_of(257.0 * drawing.values[0])});
  }
}

TEST_CASE("a list that begins with a window applies it to the samples of any source") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("images/a"));
  std::filesystem::copy_file(kStoredImages + "grey16.png", folder.path("images/a/1.png"));
  const auto images = open_image_folder({folder.path("images"), kMaxPixels});
  const auto window = [](double from, double to) {
    auto step = make_transform("window");
    set(*step, "from", from);
    set(*step, "to", to);
    return step;
  };
  TransformList list;
  list.push_back(window(1000, 40000));
  Diagnostics diagnostics;
  const TransformChain alone(list, images->sample_shape(), diagnostics);
  for (const char* name : {"resize", "center_crop"}) {
    list.push_back(make_transform(name));
    set(*list.back(), "size", int64_t{19});
  }
  const TransformChain cropped(list, images->sample_shape(), diagnostics);
  REQUIRE(diagnostics.ok());
  CHECK(cropped.output_shape() == Shape{3, 19, 19});
  Image image;
  alone.read(*images, 0, RandomStream(1), image);
  CHECK(image.pixels == stored_bytes("grey16.window", true));
  Image middle = image;
  resample(middle, cut(2, 0, 19, 19));
  cropped.read(*images, 0, RandomStream(1), image);
  CHECK(image.pixels == middle.pixels);

  const SplitStatistics ordinary = measure(*images, 1), seen = measure(*images, 1, pixel_window(list));
  double sum = 0;
  for (const uint8_t pixel : stored_bytes("grey16.window", true)) sum += pixel;
  CHECK(seen.mean[0] == Approx(sum / (3 * 19 * 23) / 255));
  CHECK(std::abs(seen.mean[0] - ordinary.mean[0]) > 0.05);

  const CountingSource bytes(3, {1, 4, 5});
  TransformList low;
  low.push_back(window(0, 10));
  Image stored, spread;
  bytes.read(1, stored);
  TransformChain(low, bytes.sample_shape(), diagnostics).read(bytes, 1, RandomStream(1), spread);
  PixelWindow{0, 10}.apply(stored);
  CHECK(spread.pixels == stored.pixels);
}

}  // namespace
}  // namespace trainer
