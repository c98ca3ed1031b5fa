// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/resample.h"

#include <algorithm>
#include <cmath>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "tests/data/images/decoding.h"

namespace trainer {
namespace {

/// The definition in double: at each result pixel, the mean of all source pixels weighted by a triangle.
double resampled(const Image& image, const View& view, int64_t c, int64_t row, int64_t column) {
  const auto weight = [](const AxisView& axis, int64_t source, int64_t made) {
    if (source < axis.low || source >= axis.high) return 0.0;
    const double scale = axis.length / static_cast<double>(axis.out), width = std::max(1.0, scale);
    const double center = axis.begin + (static_cast<double>(made) + 0.5) * scale;
    return std::max(0.0, 1 - std::abs(static_cast<double>(source) + 0.5 - center) / width);
  };
  double sum = 0, weights = 0;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      const double w = weight(view.y, y, row) * weight(view.x, x, column);
      sum += w * image.pixels[static_cast<size_t>((c * image.height + y) * image.width + x)];
      weights += w;
    }
  }
  return sum / weights;
}

Image noise(int64_t channels, int64_t height, int64_t width) {
  Image image;
  image.resize(channels, height, width);
  RandomStream random(4);
  for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(random.next_word());
  return image;
}

std::vector<View> views(int64_t height, int64_t width) {
  std::vector<View> all;
  for (const auto& [rows, columns] :
       {std::pair{5, 4}, std::pair{40, 61}, std::pair{1, 1}, std::pair{9, 30}}) {
    View view = View::whole(height, width);
    view.y.out = rows, view.x.out = columns;
    all.push_back(view);
    View window = cut(2, 3, height - 5, width - 4);
    window.y.out = rows, window.x.out = columns;
    all.push_back(window);
    View between = view;  // a window between pixels, with a filter that reads beyond it
    between.y.begin = 3.25, between.y.length = 7.5;
    between.x.begin = 0.75, between.x.length = 11.0;
    all.push_back(between);
  }
  return all;
}

/// Half a level is the rounding error; fp32 adds far less than the rest.
constexpr double kTolerance = 0.501;

TEST_CASE("resampling is the double definition, rounded once") {
  const int64_t channels = GENERATE(1, 3);
  const Image image = noise(channels, 19, 27);
  for (const View& view : views(19, 27)) {
    Image made = image;
    resample(made, view);
    REQUIRE(made.channels == channels);
    REQUIRE(made.height == view.y.out);
    REQUIRE(made.width == view.x.out);
    size_t i = 0;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t y = 0; y < made.height; ++y) {
        for (int64_t x = 0; x < made.width; ++x, ++i) {
          REQUIRE(std::abs(made.pixels[i] - resampled(image, view, c, y, x)) <= kTolerance);
        }
      }
    }
  }
}

TEST_CASE("rows of four bytes a pixel and planes give the same image") {
  const int64_t height = 33, width = 150;  // wide enough for the blocked loop
  const Image image = noise(3, height, width);
  std::vector<uint8_t> rows(static_cast<size_t>(4 * height * width), 99);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    const size_t plane = image.pixels.size() / 3;
    rows[i % plane * 4 + i / plane] = image.pixels[i];
  }
  for (const View& view : views(height, width)) {
    Image planar = image, interleaved;
    interleaved.label = 7;
    resample(planar, view);
    resample({rows.data(), 4 * width}, view, interleaved);
    CHECK(interleaved.pixels == planar.pixels);
    CHECK(interleaved.label == 7);
    const PixelRange read = pixels_read(view.x);
    CHECK(read.first >= view.x.low);
    CHECK(read.end <= view.x.high);
  }
}

TEST_CASE("a window of whole pixels is copied") {
  const Image image = noise(3, 12, 20);
  Image made = image;
  resample(made, cut(4, 3, 7, 16));
  for (int64_t c = 0, i = 0; c < 3; ++c) {
    for (int64_t y = 4; y < 11; ++y) {
      for (int64_t x = 3; x < 19; ++x, ++i) {
        REQUIRE(made.pixels[static_cast<size_t>(i)] ==
                image.pixels[static_cast<size_t>((c * 12 + y) * 20 + x)]);
      }
    }
  }
}

TEST_CASE("two views in one are the two after each other") {
  const Image image = noise(1, 60, 80);
  View smaller = View::whole(60, 80);
  smaller.y.out = 30, smaller.x.out = 40;
  const View window = cut(5, 9, 20, 20);
  Image one = image, two = image;
  resample(one, narrowed(smaller, window));
  resample(two, smaller);
  resample(two, window);
  CHECK(one.pixels == two.pixels);
}

}  // namespace
}  // namespace trainer
