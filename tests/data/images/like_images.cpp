// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/like_images.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/data/images/resample.h"
#include "tests/data/images/decoding.h"
#include "tests/data/images/images.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

/// Different shapes for each number.
Drawing scene(int number, int side) {
  RandomStream random(random_key(5, "scene"), static_cast<uint32_t>(number));
  std::array<double, 12> drawn{};
  for (double& value : drawn) value = random.next_uniform();
  return draw(side, side, 3, [=](int y, int x, int channel) {
    double value = 60 + 5 * channel;
    for (size_t blob = 0; blob < 12; blob += 3) {  // bright spots of several sizes
      const double u = static_cast<double>(x) / side - drawn[blob],
                   v = static_cast<double>(y) / side - drawn[blob + 1];
      value += 120 * std::exp(-(u * u + v * v) / (0.01 + 0.05 * drawn[blob + 2]));
    }
    return static_cast<int>(std::min(value, 250.0));
  });
}

/// Images that are given.
class GivenImages final : public CountingSource {
 public:
  explicit GivenImages(std::vector<Image> images)
      : CountingSource(static_cast<int64_t>(images.size()), {3, -1, -1}), images_(std::move(images)) {}
  void read(int64_t index, Image& into) const override {
    if (images_[static_cast<size_t>(index)].pixels.empty())
      throw UnreadableSampleError({"x.png", "is empty"});
    into = images_[static_cast<size_t>(index)];
  }

 private:
  std::vector<Image> images_;
};

ImageDigest made_digest(uint64_t hash, uint64_t contents) {
  return {.contents = contents, .appearance = {.hash = hash}, .is_readable = true};
}

}  // namespace

TEST_CASE("images compressed again or resized look alike, and other images do not") {
  int most = 0, least = 64;
  for (int number = 0; number < 30; ++number) {
    const Drawing drawn = scene(number, 64);
    const Image original = decoded(png(drawn));
    const uint64_t hash = appearance_of(original).hash;
    for (const int quality : {30, 75}) {
      const Image again = decoded(jpeg(drawn, {.quality = quality}));
      most = std::max(most, std::popcount(hash ^ appearance_of(again).hash));
    }
    Image smaller = original;
    View view = View::whole(64, 64);
    view.y.out = view.x.out = 45;
    resample(smaller, view);
    most = std::max(most, std::popcount(hash ^ appearance_of(smaller).hash));
    least = std::min(least, std::popcount(hash ^ appearance_of(decoded(png(scene(number + 100, 64)))).hash));
  }
  CHECK(most <= 8);
  CHECK(least > 8);
}

TEST_CASE("a digest tells equal images, single colours and what cannot be read, for any number of threads") {
  std::vector<Image> images;
  for (const int number : {1, 2, 1}) images.push_back(decoded(png(scene(number, 40))));
  images.push_back(decoded(png(draw(5, 5, 3, [](int, int, int c) { return 10 * c; }))));
  images.emplace_back();
  images.push_back(images[0]);
  images.back().label = 3;
  std::swap(images.back().height, images.back().width);  // square: the same image with another label
  const GivenImages source(images);
  for (const int64_t threads : {1, 2, 7}) {
    const std::vector<ImageDigest> found = digest(source, threads);
    REQUIRE(found.size() == 6);
    for (size_t i = 0; i < 6; ++i) {
      CHECK(found[i].is_readable == (i != 4));
      CHECK(found[i].is_one_color == (i == 3));
      CHECK((found[i].labels == 3) == (i == 5));
    }
    CHECK(equal_images(found) == std::vector<std::vector<size_t>>{{0, 2, 5}});
    CHECK(like_images(found, 4).empty());
  }
  // The same bytes in another shape are another image.
  Image tall = images[0], wide = images[0];
  tall.height = 80, tall.width = 20;
  CHECK(equal_images(digest(GivenImages({tall, wide}), 1)).empty());
}

TEST_CASE("all pairs within a distance are found, those alone, and each once") {
  RandomStream random(7);
  std::vector<ImageDigest> images;
  for (uint64_t i = 0; i < 300; ++i) {
    uint64_t hash = (uint64_t{random.next_word()} << 32) | random.next_word();
    if (i % 3 != 0) {  // near one that came before
      hash = images[static_cast<size_t>(random.next_below(static_cast<int64_t>(i)))].appearance.hash;
      for (int64_t k = random.next_below(20); k > 0; --k) hash ^= uint64_t{1} << random.next_below(64);
    }
    images.push_back(made_digest(hash, i));
  }
  images[17].is_readable = images[44].is_readable = false;
  images[80].is_one_color = true;
  images[90].contents = images[91].contents;
  for (const int distance : {0, 1, 4, 8, 16}) {
    std::vector<LikePair> expected;
    for (size_t i = 0; i < images.size(); ++i) {
      for (size_t j = i + 1; j < images.size(); ++j) {
        const int bits = std::popcount(images[i].appearance.hash ^ images[j].appearance.hash);
        const auto counts = [&](size_t k) { return images[k].is_readable && !images[k].is_one_color; };
        if (bits <= distance && counts(i) && counts(j) && images[i].contents != images[j].contents)
          expected.push_back({i, j, bits});
      }
    }
    CHECK(like_images(images, distance) == expected);
    CHECK(!expected.empty());
  }
  images[1] = images[0];
  images[1].contents = 999;
  CHECK(like_images(images, 0).front() == LikePair{0, 1, 0});
  images[1].appearance.thumbnail.fill(3);
  CHECK(like_images(images, 0).front() == LikePair{0, 1, 0});
  images[1].appearance.thumbnail.fill(4);  // equal hashes of images that look different
  CHECK(like_images(images, 0).front() != LikePair{0, 1, 0});
  CHECK_THAT(data_error([&] { like_images(images, 16, 5); }),
             Catch::Matchers::ContainsSubstring("more than 5 pairs of images differ in at most 16 bits"));
}

}  // namespace trainer
