// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/data/images/transforms/auto_augment.h"
#include "core/data/images/transforms/table.h"
#include "tests/catch.h"
#include "tests/data/samples.h"
#include "tests/ops/fixture.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

/// torchvision's results; its images are held as numbers.
class Augmentations {
 public:
  std::vector<uint8_t> bytes(const std::string& name) const {
    const std::vector<float> values = fixture_.values(name);
    return {values.begin(), values.end()};
  }
  Image image() const {
    const Shape& shape = fixture_.shape("image");
    Image image;
    image.resize(shape[0], shape[1], shape[2]);
    image.pixels = bytes("image");
    return image;
  }
  std::vector<float> values(const std::string& name) const { return fixture_.values(name); }
  bool has(const std::string& name) const { return fixture_.has(name); }

 private:
  Fixture fixture_{"augmentations"};
};

Image augmented(const Transform& transform, Image image, uint32_t sample) {
  RandomStream random(11, 0, sample);
  transform.apply(image, random);
  return image;
}

void check_magnitudes(const std::vector<float>& expected, const AugmentOp& op,
                      AugmentOp::Magnitude magnitude) {
  for (size_t level = 0; level < expected.size(); ++level) {
    const AugmentLevel at = {static_cast<int64_t>(level),
                             static_cast<int64_t>(std::max<size_t>(expected.size(), 2))};
    const double got = magnitude(at, 9, 11);
    INFO(op.name << " " << level << ": " << got << " " << expected[level]);
    CHECK(got == static_cast<double>(expected[level]));
  }
}

TEST_CASE("TrivialAugment's operations and strengths are torchvision's") {
  const Augmentations torchvision;
  int compared = 0;
  for (const AugmentOp& op : augment_ops()) {
    if (op.name == "Invert") continue;
    check_magnitudes(torchvision.values(fmt::format("wide.{}", op.name)), op, op.wide_magnitude);
    for (int64_t level : {0, 11, 30}) {
      for (const double sign : {1.0, -1.0}) {
        const std::string name = fmt::format("wide.{}.{}{}", op.name, level, sign > 0 ? "+" : "-");
        if (!torchvision.has(name)) continue;
        INFO(name);
        CHECK((sign > 0 || op.is_signed));
        Image image = torchvision.image();
        op.apply(image, sign * op.wide_magnitude({level, 31}, image.height, image.width));
        CHECK(image.pixels == torchvision.bytes(name));
        ++compared;
      }
    }
  }
  CHECK(compared == 9 * 4 + 2 * 2 + 3);
}

TEST_CASE("AutoAugment's policies are torchvision's") {
  const Augmentations torchvision;
  for (const AugmentOp& op : augment_ops()) {
    if (op.name == "Identity") continue;
    check_magnitudes(torchvision.values(fmt::format("auto.{}", op.name)), op, op.magnitude);
  }
  for (const NamedAutoAugmentPolicy& policy : auto_augment_policies()) {
    const std::vector<float> table = torchvision.values(fmt::format("policy.{}", policy.name));
    REQUIRE(table.size() == policy.pairs.size() * 2 * 3);
    size_t place = 0;
    for (const AutoAugmentPair& pair : policy.pairs) {
      for (const AutoAugmentStep& step : pair) {
        INFO(policy.name << " " << place / 6 << " " << augment_op(step.op).name);
        CHECK(static_cast<float>(step.op) == table[place]);
        CHECK(static_cast<float>(step.p) == table[place + 1]);
        CHECK(static_cast<float>(step.level) == std::max(table[place + 2], 0.0f));
        place += 3;
      }
    }
    for (size_t i : {3, 14, 18, 22}) {
      INFO(policy.name << " " << i);
      Image image = torchvision.image();
      double sign = -1;  // the first is negated, the second is not
      for (const AutoAugmentStep& step : policy.pairs[i]) {
        const AugmentOp& op = augment_op(step.op);
        op.apply(image, (op.is_signed ? sign : 1) *
                            op.magnitude({step.level, kAutoAugmentLevels}, image.height, image.width));
        sign = 1;
      }
      CHECK(image.pixels == torchvision.bytes(fmt::format("policy.{}.{}", policy.name, i)));
    }
  }
  Image image = torchvision.image();
  augment_op(AugmentKind::invert).apply(image, 0);
  CHECK(image.pixels == torchvision.bytes("Invert"));
}

TEST_CASE("trivial_augment draws every operation, strength and sign alike") {
  const Augmentations torchvision;
  const auto augment = make_transform("trivial_augment");
  CHECK(augment->is_random());
  set(*augment, "num_magnitude_bins", int64_t{4});
  std::map<std::vector<uint8_t>, int> known;
  const Image plain = torchvision.image();
  for (const AugmentOp& op : augment_ops()) {
    if (op.name == "Invert") continue;
    for (int64_t level = 0; level < 4; ++level) {
      for (const double sign : {1.0, -1.0}) {
        Image image = plain;
        op.apply(image, (op.is_signed ? sign : 1) * op.wide_magnitude({level, 4}, image.height, image.width));
        known[image.pixels] = 0;
      }
    }
  }
  constexpr int kDraws = 14 * 4 * 2 * 40;
  for (uint32_t sample = 0; sample < kDraws; ++sample) {
    const auto found = known.find(augmented(*augment, plain, sample).pixels);
    REQUIRE(found != known.end());
    ++found->second;
  }
  for (const auto& [pixels, count] : known) CHECK(count > 15);
  CHECK(augmented(*augment, plain, 5).pixels == augmented(*augment, plain, 5).pixels);
}

TEST_CASE("auto_augment draws pairs with their probabilities") {
  const Augmentations torchvision;
  const Image plain = torchvision.image();
  for (const NamedAutoAugmentPolicy& policy : auto_augment_policies()) {
    const auto augment = make_transform("auto_augment");
    CHECK(augment->is_random());
    set(*augment, "policy", std::string(policy.name));
    std::map<std::vector<uint8_t>, double> expected;
    for (const AutoAugmentPair& pair : policy.pairs) {
      for (int drawn = 0; drawn < 16; ++drawn) {  // for each operation: does it happen, is it negated
        Image image = plain;
        double p = 1.0 / (25 * 4);
        for (size_t i = 0; i < 2; ++i) {
          const bool happens = (drawn >> i & 1) != 0, negative = (drawn >> (i + 2) & 1) != 0;
          const AugmentOp& op = augment_op(pair[i].op);
          p *= happens ? pair[i].p : 1 - pair[i].p;
          const double magnitude = op.magnitude({pair[i].level, 10}, image.height, image.width);
          if (happens) op.apply(image, op.is_signed && negative ? -magnitude : magnitude);
        }
        if (p > 0) expected[image.pixels] += p;
      }
    }
    std::map<std::vector<uint8_t>, int> counts;
    constexpr int kDraws = 4000;
    for (uint32_t sample = 0; sample < kDraws; ++sample) ++counts[augmented(*augment, plain, sample).pixels];
    for (const auto& [pixels, count] : counts) CHECK(expected.count(pixels) == 1);
    for (const auto& [pixels, p] : expected) {
      INFO(policy.name << " " << p << " " << counts[pixels]);
      CHECK(std::abs(counts[pixels] - kDraws * p) < 5 * std::sqrt(kDraws * p * (1 - p)) + 1);
    }
  }
}

/// Of a white image: the rectangle that is not white, and its contents.
struct Erased {
  int64_t top = 0, left = 0, rows = 0, columns = 0;
  std::set<std::vector<uint8_t>> colours;

  Erased(const Image& image, uint8_t white) {
    int64_t bottom = -1, right = -1, count = 0;
    top = image.height, left = image.width;
    const int64_t plane = image.height * image.width;
    for (int64_t i = 0; i < plane; ++i) {
      std::vector<uint8_t> colour;
      for (int64_t c = 0; c < image.channels; ++c)
        colour.push_back(image.pixels[static_cast<size_t>(c * plane + i)]);
      if (std::ranges::all_of(colour, [&](uint8_t byte) { return byte == white; })) continue;
      const int64_t y = i / image.width, x = i % image.width;
      top = std::min(top, y), bottom = std::max(bottom, y), left = std::min(left, x),
      right = std::max(right, x);
      colours.insert(colour);
      ++count;
    }
    if (count == 0) return;
    rows = bottom - top + 1, columns = right - left + 1;
    CHECK(count == rows * columns);
  }
};

Image white_image(int64_t channels, int64_t height, int64_t width) {
  Image image;
  image.resize(channels, height, width);
  std::ranges::fill(image.pixels, uint8_t{255});
  return image;
}

TEST_CASE("random_erasing fills one rectangle of allowed area and shape") {
  const auto erasing = make_transform("random_erasing");
  CHECK(erasing->is_random());
  set(*erasing, "scale", std::vector<double>{0.1, 0.3});
  set(*erasing, "ratio", std::vector<double>{0.5, 3.0});
  set(*erasing, "value", std::vector<double>{1, 2, 3});
  int erased = 0, wide = 0;
  std::set<int64_t> tops, lefts;
  constexpr int kDraws = 2000;
  for (uint32_t sample = 0; sample < kDraws; ++sample) {
    const Erased found(augmented(*erasing, white_image(3, 40, 30), sample), 255);
    if (found.rows == 0) continue;
    ++erased;
    CHECK(found.colours == std::set<std::vector<uint8_t>>{{1, 2, 3}});
    const auto rows = static_cast<double>(found.rows), columns = static_cast<double>(found.columns);
    CHECK((rows + 0.5) * (columns + 0.5) >= 0.1 * 1200);
    CHECK((rows - 0.5) * (columns - 0.5) <= 0.3 * 1200);
    CHECK((rows + 0.5) / (columns - 0.5) >= 0.5);
    CHECK((rows - 0.5) / (columns + 0.5) <= 3.0);
    wide += columns > rows;
    tops.insert(found.top), lefts.insert(found.left);
  }
  CHECK(std::abs(erased - kDraws / 2) < 112);  // five standard deviations
  // log ratio is uniform: log(2) of log(6) is below 1, less the part that does not fit into a width of 30.
  CHECK(wide > erased / 4);
  CHECK(wide < erased / 2);
  CHECK(tops.size() > 25);
  CHECK(lefts.size() > 18);
  set(*erasing, "p", 0.0);
  CHECK(Erased(augmented(*erasing, white_image(3, 40, 30), 1), 255).rows == 0);
}

TEST_CASE("random_erasing puts noise, and leaves images where no rectangle fits") {
  const auto erasing = make_transform("random_erasing");
  set(*erasing, "p", 1.0);
  set(*erasing, "scale", std::vector<double>{0.2, 0.3});
  set(*erasing, "noise", true);
  const Image noisy = augmented(*erasing, white_image(2, 32, 32), 3);
  CHECK(Erased(noisy, 255).colours.size() > 100);
  CHECK(noisy.pixels == augmented(*erasing, white_image(2, 32, 32), 3).pixels);

  set(*erasing, "scale", std::vector<double>{1.0, 1.0});  // both sides must be smaller than the image's
  CHECK(augmented(*erasing, white_image(2, 32, 32), 3).pixels == white_image(2, 32, 32).pixels);
}

TEST_CASE("random_erasing's limits and values are checked at their keys") {
  const auto erasing = make_transform("random_erasing");
  Diagnostics diagnostics;
  erasing->output_shape({3, 8, 8}, diagnostics);
  CHECK(diagnostics.ok());
  set(*erasing, "scale", std::vector<double>{0.3, 0.1});
  erasing->written["scale"] = Location{"r.yaml", 3, 7};
  set(*erasing, "ratio", std::vector<double>{1.0});
  erasing->written["ratio"] = Location{"r.yaml", 4, 7};
  set(*erasing, "value", std::vector<double>{1, 2});
  erasing->written["value"] = Location{"r.yaml", 5, 7};
  erasing->output_shape({3, 8, 8}, diagnostics);
  REQUIRE(diagnostics.problems().size() == 3);
  CHECK_THAT(diagnostics.problems()[0],
             ContainsSubstring("scale: must be two numbers, the smaller first, got [0.3, 0.1]"));
  CHECK_THAT(diagnostics.problems()[1],
             ContainsSubstring("ratio: must be two numbers, the smaller first, got [1]"));
  CHECK_THAT(diagnostics.problems()[2],
             ContainsSubstring("value: must have 1 number or one per channel of the samples, 3, got 2"));
}

}  // namespace
}  // namespace trainer
