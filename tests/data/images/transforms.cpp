// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include "tests/catch.h"

#include "core/data/images/transforms/table.h"
#include "core/data/images/transforms/tones.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

Image numbered(int64_t channels, int64_t height, int64_t width) {
  Image image;
  image.resize(channels, height, width);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(1 + i % 255);
  return image;
}

/// The pixel at (c, y, x), zero outside.
int at(const Image& image, int64_t c, int64_t y, int64_t x) {
  if (y < 0 || x < 0 || y >= image.height || x >= image.width) return 0;
  return image.pixels[static_cast<size_t>((c * image.height + y) * image.width + x)];
}

bool is_shifted(const Image& cropped, const Image& original, int64_t top, int64_t left) {
  for (int64_t c = 0; c < cropped.channels; ++c) {
    for (int64_t y = 0; y < cropped.height; ++y) {
      for (int64_t x = 0; x < cropped.width; ++x) {
        if (at(cropped, c, y, x) != at(original, c, y + top, x + left)) return false;
      }
    }
  }
  return true;
}

/// The shifts of a crop in many draws; fails if a result is not a shift at all.
std::set<std::pair<int64_t, int64_t>> shifts(const Transform& crop, const Image& original, int64_t reach) {
  std::set<std::pair<int64_t, int64_t>> found;
  for (uint32_t sample = 0; sample < 600; ++sample) {
    Image image = original;
    RandomStream random(3, 0, sample);
    crop.apply(image, random);
    size_t matches = 0;
    for (int64_t top = -reach; top <= reach; ++top) {
      for (int64_t left = -reach; left <= reach; ++left) {
        if (!is_shifted(image, original, top, left)) continue;
        found.emplace(top, left);
        ++matches;
      }
    }
    REQUIRE(matches == 1);
  }
  return found;
}

TEST_CASE("random_crop keeps the size and reaches every shift of its padding") {
  const auto crop = make_transform("random_crop");
  const Image original = numbered(2, 9, 7);
  CHECK(crop->is_random());
  CHECK(shifts(*crop, original, 4).size() == 25);
}

TEST_CASE("random_crop to another size, smaller and larger") {
  const auto crop = make_transform("random_crop");
  const int64_t size = GENERATE(1, 5, 10, 11);
  set(*crop, "size", size);
  const Image original = numbered(1, 9, 7);
  Diagnostics diagnostics;
  CHECK(crop->output_shape({1, 9, 7}, diagnostics) == Shape{1, size, size});
  CHECK(diagnostics.ok());
  Image image = original;
  RandomStream random(1);
  crop->apply(image, random);
  CHECK(image.height == size);
  CHECK(image.pixels.size() == static_cast<size_t>(size * size));
  // Unlike one pixel, the larger windows show their position.
  if (size >= 5) CHECK(shifts(*crop, original, 10).size() == static_cast<size_t>((14 - size) * (12 - size)));
  set(*crop, "size", int64_t{12});
  crop->origin.path = "data.augment[0]";

  crop->output_shape({1, 9, 7}, diagnostics);
  REQUIRE(diagnostics.problems().size() == 1);
  CHECK_THAT(diagnostics.problems()[0],
             ContainsSubstring("data.augment[0]") && ContainsSubstring("must be at most 11"));
}

TEST_CASE("random_crop with more padding than image") {
  const auto crop = make_transform("random_crop");
  set(*crop, "padding", int64_t{6});
  const Image original = numbered(3, 2, 3);
  std::set<std::string> results;
  for (uint32_t sample = 0; sample < 3000; ++sample) {
    Image image = original;
    RandomStream random(5, 0, sample);
    crop->apply(image, random);
    bool matches = false;
    for (int64_t top = -6; top <= 6; ++top) {
      for (int64_t left = -6; left <= 6; ++left) matches = matches || is_shifted(image, original, top, left);
    }
    REQUIRE(matches);
    results.emplace(image.pixels.begin(), image.pixels.end());
  }
  CHECK(results.size() == 16);  // 3 x 5 shifts that leave something, and black
}

TEST_CASE("horizontal_flip mirrors rows as often as p says") {
  const auto flip = make_transform("horizontal_flip");
  const double p = GENERATE(0.0, 0.3, 0.5, 1.0);
  set(*flip, "p", p);
  const Image original = numbered(2, 3, 5);
  Image mirrored = original;
  for (size_t row = 0; row < 6; ++row) {
    std::reverse(mirrored.pixels.begin() + static_cast<int64_t>(row) * 5,
                 mirrored.pixels.begin() + static_cast<int64_t>(row + 1) * 5);
  }
  for (uint64_t seed : {1u, 2u}) {
    int flips = 0;
    for (uint32_t sample = 0; sample < 4000; ++sample) {
      Image image = original;
      RandomStream random(seed, 0, sample);
      flip->apply(image, random);
      const bool flipped = image.pixels == mirrored.pixels;
      REQUIRE((flipped || image.pixels == original.pixels));
      flips += flipped;
    }
    CHECK(flips / 4000.0 == Approx(p).margin(0.03));
  }
}

TEST_CASE("vertical_flip mirrors columns as often as p says") {
  const auto flip = make_transform("vertical_flip");
  CHECK(flip->is_random());
  const double p = GENERATE(0.0, 0.3, 1.0);
  set(*flip, "p", p);
  for (const int64_t height : {1, 2, 3}) {
    const Image original = numbered(2, height, 5);
    Image mirrored = original;
    for (int64_t c = 0; c < 2; ++c) {
      for (int64_t y = 0; y < height; ++y)
        std::copy_n(original.pixels.begin() + (c * height + y) * 5, 5,
                    mirrored.pixels.begin() + (c * height + height - 1 - y) * 5);
    }
    int flips = 0;
    for (uint32_t sample = 0; sample < 2000; ++sample) {
      Image image = original;
      RandomStream random(1, 0, sample);
      flip->apply(image, random);
      const bool flipped = image.pixels == mirrored.pixels;
      REQUIRE((flipped || image.pixels == original.pixels));
      flips += flipped;
    }
    if (height > 1) CHECK(flips / 2000.0 == Approx(p).margin(0.04));
  }
}

/// How often each result occurs in 4000 draws.
std::map<std::vector<uint8_t>, int> rotations(const Image& original) {
  const auto rotate = make_transform("rotate90");
  CHECK(rotate->is_random());
  std::map<std::vector<uint8_t>, int> results;
  for (uint32_t sample = 0; sample < 4000; ++sample) {
    Image image = original;
    RandomStream random(3, 0, sample);
    rotate->apply(image, random);
    REQUIRE((image.height == original.height && image.width == original.width));
    ++results[image.pixels];
  }
  return results;
}

TEST_CASE("rotate90 turns squares by each multiple of 90 degrees, other images by 180") {
  Image square;
  square.resize(2, 3, 3);
  square.pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  const std::vector<std::vector<uint8_t>> turned = {
      square.pixels,
      {3, 6, 9, 2, 5, 8, 1, 4, 7, 13, 16, 19, 12, 15, 18, 11, 14, 17},
      {9, 8, 7, 6, 5, 4, 3, 2, 1, 19, 18, 17, 16, 15, 14, 13, 12, 11},
      {7, 4, 1, 8, 5, 2, 9, 6, 3, 17, 14, 11, 18, 15, 12, 19, 16, 13}};
  const auto squares = rotations(square);
  CHECK(squares.size() == 4);
  for (const auto& pixels : turned) CHECK(squares.at(pixels) / 4000.0 == Approx(0.25).margin(0.03));

  Image even;
  even.resize(1, 2, 2);
  even.pixels = {1, 2, 3, 4};
  CHECK(rotations(even).contains({2, 4, 1, 3}));

  const Image wide = numbered(1, 2, 3);
  const auto halves = rotations(wide);
  CHECK(halves.size() == 2);
  CHECK(halves.at({wide.pixels.rbegin(), wide.pixels.rend()}) / 4000.0 == Approx(0.5).margin(0.03));
  CHECK(rotations(numbered(3, 1, 1)).size() == 1);
}

TEST_CASE("equalize and autocontrast are steps of their own, always or with a probability") {
  for (const auto& [name, spread] : {std::pair{"equalize", &equalize}, {"autocontrast", &autocontrast}}) {
    const auto step = make_transform(name);
    CHECK(!step->is_random());
    Image original = numbered(3, 30, 31);
    for (uint8_t& pixel : original.pixels) pixel = static_cast<uint8_t>(20 + pixel / 2);
    Image expected = original, image = original;
    spread(expected);
    CHECK(expected.pixels != original.pixels);
    RandomStream random(1);
    step->apply(image, random);
    CHECK(image.pixels == expected.pixels);
    set(*step, "p", 0.3);
    CHECK(step->is_random());
    int times = 0;
    for (uint32_t sample = 0; sample < 2000; ++sample) {
      image = original;
      RandomStream draw(1, 0, sample);
      step->apply(image, draw);
      times += image.pixels == expected.pixels;
    }
    CHECK(times / 2000.0 == Approx(0.3).margin(0.04));
  }
}

TEST_CASE("bytes become x / 255, or what normalize says") {
  Image image;
  image.resize(3, 16, 16);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i);
  std::vector<float> row(image.pixels.size());
  TransformList list;
  make_chain(list, {3, 16, 16}).write(image, row.data());
  for (size_t i = 0; i < row.size(); ++i) {
    CHECK(row[i] == Approx(static_cast<double>(i % 256) / 255).epsilon(2e-7));
  }
  CHECK(row[255] == 1.0f);

  list.push_back(make_transform("normalize"));
  const std::vector<double> mean = {0.1, 0.5, 0.9}, std = {0.2, 0.3, 1.0};
  set(*list[0], "mean", mean);
  set(*list[0], "std", std);
  make_chain(list, {3, 16, 16}).write(image, row.data());
  for (size_t i = 0; i < row.size(); ++i) {
    const double expected = (static_cast<double>(i % 256) / 255 - mean[i / 256]) / std[i / 256];
    CHECK(row[i] == Approx(expected).margin(1e-6));
  }

  set(*list[0], "mean", std::vector<double>{0.5});
  set(*list[0], "std", std::vector<double>{0.25});
  make_chain(list, {3, 16, 16}).write(image, row.data());
  for (size_t c = 0; c < 3; ++c) CHECK(row[c * 256 + 255] == Approx(2.0).epsilon(1e-6));
}

TEST_CASE("normalize for another number of channels is reported at its parameter") {
  TransformList list;
  list.push_back(make_transform("normalize"));
  set(*list[0], "mean", std::vector<double>{0.1, 0.2});
  set(*list[0], "std", std::vector<double>{0.5});
  Location& mean = list[0]->written["mean"];
  mean.file = "r.yaml";
  mean.line = 7;
  mean.column = 19;
  Diagnostics diagnostics;
  TransformChain(list, {3, 4, 4}, diagnostics);
  REQUIRE(diagnostics.problems().size() == 1);
  CHECK_THAT(diagnostics.problems()[0],
             ContainsSubstring("r.yaml:7:19") &&
                 ContainsSubstring("mean: must have 1 number or 3, as the samples have 3 channels, got 2"));
  Diagnostics fits;
  CHECK(TransformChain(list, {2, 4, 4}, fits).output_shape() == Shape{2, 4, 4});
  CHECK(fits.ok());
}

TEST_CASE("a chain passes shapes on and refuses a sample of another shape") {
  TransformList list;
  list.push_back(make_transform("random_crop"));
  set(*list[0], "size", int64_t{6});
  list.push_back(make_transform("horizontal_flip"));
  const TransformChain chain = make_chain(list, {1, 8, 8});
  CHECK(chain.output_shape() == Shape{1, 6, 6});
  std::vector<float> row(64);
  const Image image = numbered(1, 8, 8);
  CHECK_THAT(data_error([&] { chain.write(image, row.data()); }),
             ContainsSubstring("1x8x8") && ContainsSubstring("1x6x6"));
}

TEST_CASE("a device cuts and mirrors as the host does, from the same draws") {
  const Shape shape{2, 9, 7};
  const CountingSource source(20, shape);
  TransformList list;
  for (const char* name : {"random_crop", "horizontal_flip", "random_crop", "horizontal_flip"})
    list.push_back(make_transform(name));
  set(*list[0], "padding", int64_t{3});
  set(*list[1], "p", 0.7);
  set(*list[2], "size", int64_t{5});
  const TransformChain chain = make_chain(list, shape);
  SampleSteps steps{.count = 4, .key = random_key(3, "augment")};
  Shape at = shape;
  Diagnostics diagnostics;
  for (size_t i = 0; i < 4; ++i) {
    steps.steps[i] = *list[i]->device_step(at);
    at = list[i]->output_shape(at, diagnostics);
  }
  Image image = chain.make_image(), whole;
  int64_t differing = 0, padding = 0;
  for (int32_t epoch = 0; epoch < 5; ++epoch) {
    for (int32_t sample = 0; sample < 20; ++sample) {
      const RandomStream random(steps.key, static_cast<uint32_t>(epoch), static_cast<uint32_t>(sample));
      chain.read(source, sample, random, image);
      source.read(sample, whole);
      const DrawnSteps drawn = draw_steps(steps, epoch, sample, shape[1], shape[2]);
      for (int64_t i = 0; i < 2 * 25; ++i) {
        int64_t y = i / 5 % 5, x = i % 5;
        const bool inside = source_place(steps, drawn, shape[1], shape[2], y, x);
        const uint8_t found =
            inside ? whole.pixels[static_cast<size_t>((i / 25 * 9 + y) * 7 + x)] : uint8_t{0};
        differing += found != image.pixels[static_cast<size_t>(i)];
        padding += inside ? 0 : 1;
      }
    }
  }
  CHECK(differing == 0);
  CHECK(padding > 0);
  CHECK_FALSE(make_transform("cutout")->device_step(shape));
}

}  // namespace
}  // namespace trainer
