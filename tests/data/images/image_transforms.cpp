// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include "tests/catch.h"

#include "core/data/images/transforms/augment_ops.h"
#include "core/data/images/transforms/colour.h"
#include "core/data/images/transforms/table.h"
#include "core/data/images/transforms/tones.h"
#include "core/data/images/transforms/warp.h"
#include "tests/data/samples.h"
#include "tests/ops/fixture.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Pixels = std::vector<uint8_t>;

/// Images of the fixture, which holds them as numbers.
class Images {
 public:
  explicit Images(const std::string& fixture = "transforms") : fixture_(fixture) {}
  Image image(const std::string& name) const {
    const Shape& shape = fixture_.shape(name);
    Image image;
    image.resize(shape[0], shape[1], shape[2]);
    image.pixels = pixels(name);
    return image;
  }
  Pixels pixels(const std::string& name) const {
    const std::vector<float> values = fixture_.values(name);
    return {values.begin(), values.end()};
  }
  bool has(const std::string& name) const { return fixture_.has(name); }
  double number(const std::string& name, size_t place = 0) const { return fixture_.values(name)[place]; }

 private:
  Fixture fixture_;
};

/// Equal pixel by pixel, except for `off_by_one` of them, with a number on the other side of a step.
void check_same(const Pixels& got, const Pixels& expected, int off_by_one = 0) {
  REQUIRE(got.size() == expected.size());
  int differing = 0, worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const int difference = std::abs(got[i] - expected[i]);
    differing += difference > 0;
    worst = std::max(worst, difference);
  }
  CHECK(worst <= 1);
  CHECK(differing <= off_by_one);
}

Image filled(int64_t channels, int64_t height, int64_t width, uint8_t value) {
  Image image;
  image.resize(channels, height, width);
  std::fill(image.pixels.begin(), image.pixels.end(), value);
  return image;
}

Image applied(const Transform& transform, Image image, uint32_t sample) {
  RandomStream random(7, 0, sample);
  transform.apply(image, random);
  return image;
}

TEST_CASE("colours are adjusted as torchvision does it") {
  const Images images;
  const std::pair<const char*, void (*)(Image&, double)> kinds[] = {{"brightness", adjust_brightness},
                                                                    {"contrast", adjust_contrast},
                                                                    {"saturation", adjust_saturation},
                                                                    {"sharpness", adjust_sharpness}};
  for (const auto& [kind, adjust] : kinds) {
    for (int i = 0; i < 4; ++i) {
      INFO(kind << " " << images.number(fmt::format("factor.{}", i)));
      Image image = images.image("image");
      adjust(image, images.number(fmt::format("factor.{}", i)));
      check_same(image.pixels, images.pixels(fmt::format("{}.{}", kind, i)));
    }
    Image image = images.image("image");
    adjust(image, 1);
    CHECK(image.pixels == images.pixels("image"));
  }
  for (int i = 0; i < 4; ++i) {
    Image grey = images.image("grey");
    adjust_contrast(grey, images.number(fmt::format("factor.{}", i)));
    check_same(grey.pixels, images.pixels(fmt::format("grey_contrast.{}", i)));
  }
  for (int i = 0; i < 5; ++i) {
    INFO("hue " << images.number(fmt::format("shift.{}", i)));
    Image image = images.image("image");
    adjust_hue(image, images.number(fmt::format("shift.{}", i)));
    check_same(image.pixels, images.pixels(fmt::format("hue.{}", i)));
  }
}

TEST_CASE("images are turned as torchvision does it") {
  const Images images;
  for (int i = 0; i < 3; ++i) {
    INFO("angle " << images.number(fmt::format("angle.{}", i)));
    Image image = images.image("image");
    warp(image, rotation_by(images.number(fmt::format("angle.{}", i))), Sampling::bilinear);
    check_same(image.pixels, images.pixels(fmt::format("rotation.{}", i)));
  }
}

TEST_CASE("filters against noise compute what torchvision and PIL compute") {
  const Images images;
  for (int i = 0; i < 3; ++i) {
    const auto gaussian = make_transform("gaussian");
    set(*gaussian, "sigma", images.number(fmt::format("sigma.{}", i)));
    INFO("sigma " << images.number(fmt::format("sigma.{}", i)));
    check_same(applied(*gaussian, images.image("image"), 0).pixels,
               images.pixels(fmt::format("gaussian.{}", i)));
  }
  for (int64_t side : {3, 5}) {
    const auto median = make_transform("median");
    set(*median, "size", side);
    CHECK(applied(*median, images.image("image"), 0).pixels == images.pixels(fmt::format("median.{}", side)));
  }
}

TEST_CASE("the bilateral filter is OpenCV's, of greys and of colours") {
  const Images images("filters");
  for (int i = 0; i < 4; ++i) {
    const std::string sigmas = fmt::format("sigmas.{}", i);
    const auto bilateral = make_transform("bilateral");
    set(*bilateral, "sigma_color", images.number(sigmas));
    set(*bilateral, "sigma_space", images.number(sigmas, 1));
    for (const std::string name : {"grey", "color"}) {
      INFO(name << ", sigmas " << images.number(sigmas) << " and " << images.number(sigmas, 1));
      check_same(applied(*bilateral, images.image(name), 0).pixels,
                 images.pixels(fmt::format("bilateral.{}.{}", name, i)), 3);
    }
  }
}

TEST_CASE("filters work on images wider than their blocks, down to a single pixel") {
  for (const char* name : {"median", "gaussian", "bilateral"}) {
    const auto filter = make_transform(name);
    CHECK(!filter->is_random());
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {1, 200}, {130, 2}, {7, 129}}) {
      const Image flat = filled(2, height, width, 201);
      CHECK(applied(*filter, flat, 0).pixels == flat.pixels);
    }
  }
  // A ramp is its own median and blur away from its ends, in every block alike.
  Image ramp = filled(1, 6, 250, 0);
  for (size_t i = 0; i < ramp.pixels.size(); ++i) ramp.pixels[i] = static_cast<uint8_t>(i % 250);
  for (const char* name : {"median", "gaussian", "bilateral"}) {
    const Image filtered = applied(*make_transform(name), ramp, 0);
    for (size_t y = 0; y < 6; ++y) {
      for (size_t x = 3; x < 247; ++x) REQUIRE(filtered.pixels[y * 250 + x] == x);
    }
  }
}

TEST_CASE("RandAugment's operations are torchvision's") {
  const Images images;
  int compared = 0;
  for (const AugmentOp& op : augment_ops()) {
    if (op.name == "Invert") continue;
    for (int64_t level : {9, 28}) {
      for (const double sign : {1.0, -1.0}) {
        const std::string name = fmt::format("{}.{}{}", op.name, level, sign > 0 ? "+" : "-");
        if (!images.has(name)) continue;
        CHECK((sign > 0 || op.is_signed));
        INFO(name);
        Image image = images.image("image");
        const double magnitude = images.number(fmt::format("{}.{}", op.name, level));  // in fp32
        CHECK(op.magnitude({level, kRandAugmentLevels}, image.height, image.width) ==
              Approx(magnitude).epsilon(1e-6));
        op.apply(image, sign * magnitude);
        check_same(image.pixels, images.pixels(name));
        ++compared;
      }
    }
  }
  CHECK(compared == 9 * 4 + 2 * 2 + 3);
  Image wide = images.image("wide");
  equalize(wide);
  CHECK(wide.pixels == images.pixels("wide.equalized"));
}

TEST_CASE("random_augment draws every operation and both signs") {
  const Images images;
  const auto augment = make_transform("random_augment");
  CHECK(augment->is_random());
  set(*augment, "num_ops", int64_t{1});
  set(*augment, "magnitude", int64_t{9});
  std::map<Pixels, std::string> known;
  for (const AugmentOp& op : augment_ops()) {
    if (op.name == "Invert") continue;
    for (const double sign : {1.0, -1.0}) {
      if (sign < 0 && !op.is_signed) continue;
      Image image = images.image("image");
      op.apply(image, sign * op.magnitude({9, kRandAugmentLevels}, image.height, image.width));
      known[image.pixels] = fmt::format("{} {}", op.name, sign);
    }
  }
  // 99 pixels are too few for Equalize, which then equals Identity.
  CHECK(known.size() == 14 + 9 - 1);
  std::set<std::string> drawn;
  for (uint32_t sample = 0; sample < 600; ++sample) {
    const auto found = known.find(applied(*augment, images.image("image"), sample).pixels);
    REQUIRE(found != known.end());
    drawn.insert(found->second);
  }
  CHECK(drawn.size() == known.size());
  set(*augment, "num_ops", int64_t{3});
  CHECK(applied(*augment, images.image("image"), 1).pixels ==
        applied(*augment, images.image("image"), 1).pixels);
  CHECK(applied(*augment, images.image("image"), 1).pixels !=
        applied(*augment, images.image("image"), 2).pixels);
  CHECK(applied(*augment, images.image("grey"), 1).pixels.size() == 99);
}

TEST_CASE("color_jitter draws its factors from all of their range, in any order") {
  const auto jitter = make_transform("color_jitter");
  CHECK(jitter->is_random());
  const Image plain = filled(3, 2, 2, 100);
  CHECK(applied(*jitter, plain, 0).pixels == plain.pixels);
  set(*jitter, "brightness", 0.4);
  std::set<int> values;
  for (uint32_t sample = 0; sample < 2000; ++sample) values.insert(applied(*jitter, plain, sample).pixels[0]);
  CHECK(*values.begin() == 60);
  CHECK(*values.rbegin() == 139);
  CHECK(values.size() == 80);

  // From half to one and a half times the brightness, and from no to double contrast: white on black shows
  // which is first.
  set(*jitter, "brightness", 0.5);
  set(*jitter, "contrast", 1.0);
  Image halves = filled(1, 1, 2, 0);
  halves.pixels[1] = 200;
  int lifted = 0;
  for (uint32_t sample = 0; sample < 400; ++sample) lifted += applied(*jitter, halves, sample).pixels[0] > 0;
  CHECK(lifted > 100);  // contrast below 1: black becomes grey
  CHECK(lifted < 300);

  set(*jitter, "brightness", 0.0);
  set(*jitter, "contrast", 0.0);
  set(*jitter, "hue", 0.5);
  Image red = filled(3, 1, 1, 0);
  red.pixels[0] = 255;
  std::set<Pixels> hues;
  for (uint32_t sample = 0; sample < 500; ++sample) {
    const Pixels turned = applied(*jitter, red, sample).pixels;
    CHECK(*std::max_element(turned.begin(), turned.end()) == 255);
    CHECK(*std::min_element(turned.begin(), turned.end()) == 0);
    hues.insert(turned);
  }
  CHECK(hues.size() > 300);
}

TEST_CASE("what needs colours says so at its key") {
  const auto jitter = make_transform("color_jitter");
  Diagnostics diagnostics;
  set(*jitter, "brightness", 0.5);
  set(*jitter, "contrast", 0.5);
  jitter->output_shape({1, 8, 8}, diagnostics);
  CHECK(diagnostics.ok());
  set(*jitter, "hue", 0.1);
  jitter->written["hue"] = Location{"r.yaml", 7, 30};
  jitter->output_shape({3, 8, 8}, diagnostics);
  CHECK(diagnostics.ok());
  jitter->output_shape({1, 8, 8}, diagnostics);
  REQUIRE(diagnostics.problems().size() == 1);
  CHECK_THAT(diagnostics.problems()[0], ContainsSubstring("r.yaml:7:30") &&
                                            ContainsSubstring("hue: needs images with 3 channels, got 1"));
}

TEST_CASE("windows that do not fit are reported at their key") {
  Diagnostics diagnostics;
  const auto median = make_transform("median"), gaussian = make_transform("gaussian");
  set(*median, "size", int64_t{4});
  median->output_shape({1, 8, 8}, diagnostics);
  set(*gaussian, "sigma", 2.0);
  gaussian->output_shape({1, 8, 7}, diagnostics);
  CHECK(diagnostics.problems().size() == 1);
  gaussian->output_shape({1, 8, 6}, diagnostics);
  REQUIRE(diagnostics.problems().size() == 2);
  CHECK_THAT(diagnostics.problems()[0], ContainsSubstring("must be 3 or 5, got 4"));
  CHECK_THAT(diagnostics.problems()[1], ContainsSubstring("reaches 6 pixels") && ContainsSubstring("8x6"));
}

TEST_CASE("rotation turns both ways and by nothing leaves the image alone") {
  const Images images;
  const auto rotation = make_transform("rotation");
  CHECK(rotation->is_random());
  CHECK(applied(*rotation, images.image("image"), 3).pixels == images.pixels("image"));
  set(*rotation, "degrees", 90.0);
  // A point at the right end of a line goes up when turned counter-clockwise, down otherwise.
  Image point = filled(1, 21, 21, 0);
  for (size_t x = 17; x < 20; ++x) point.pixels[10 * 21 + x] = 255;
  int up = 0, down = 0;
  for (uint32_t sample = 0; sample < 400; ++sample) {
    const Pixels turned = applied(*rotation, point, sample).pixels;
    int above = 0, below = 0;
    for (size_t i = 0; i < 9 * 21; ++i) above += turned[i], below += turned[12 * 21 + i];
    up += above > below, down += below > above;
  }
  CHECK(up > 150);
  CHECK(down > 150);
}

TEST_CASE("cutout blackens one square, whose centre is anywhere") {
  const auto cutout = make_transform("cutout");
  CHECK(cutout->is_random());
  set(*cutout, "size", int64_t{4});
  std::set<std::array<int64_t, 4>> corners;
  for (uint32_t sample = 0; sample < 3000; ++sample) {
    const Image image = applied(*cutout, filled(2, 9, 6, 255), sample);
    int64_t top = 9, left = 6, bottom = -1, right = -1, black = 0;
    for (int64_t i = 0; i < 54; ++i) {
      REQUIRE(image.pixels[static_cast<size_t>(i)] == image.pixels[static_cast<size_t>(54 + i)]);
      if (image.pixels[static_cast<size_t>(i)] == 255) continue;
      ++black;
      top = std::min(top, i / 6), bottom = std::max(bottom, i / 6);
      left = std::min(left, i % 6), right = std::max(right, i % 6);
    }
    REQUIRE(black == (bottom - top + 1) * (right - left + 1));
    CHECK((bottom - top < 4 && right - left < 4));
    if (top > 0 && bottom < 8) CHECK(bottom - top == 3);
    corners.insert({top, bottom, left, right});
  }
  CHECK(corners.size() == 9 * 6);
}

}  // namespace
}  // namespace trainer
