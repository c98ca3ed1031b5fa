// SPDX-License-Identifier: Apache-2.0
// What a denoising autoencoder reads, and its target.
#include <algorithm>
#include <cmath>
#include <utility>
#include "tests/catch.h"

#include "tests/data/samples.h"

namespace trainer {
namespace {

constexpr int64_t kDrawn = 12, kCut = 8, kCutArea = kCut * kCut;

/// Pixels that hold their coordinates: y + 1 in the first channel, x + 1 in the second. Black is not among
/// them.
class CoordinateSource final : public CountingSource {
 public:
  CoordinateSource() : CountingSource(5, {2, kDrawn, kDrawn}) {}
  void read(int64_t index, Image& into) const override {
    CountingSource::read(index, into);
    for (int64_t i = 0; i < kDrawn * kDrawn; ++i) {
      into.pixels[static_cast<size_t>(i)] = static_cast<uint8_t>(i / kDrawn + 1);
      into.pixels[static_cast<size_t>(kDrawn * kDrawn + i)] = static_cast<uint8_t>(i % kDrawn + 1);
    }
  }
};

/// The bytes of a row: as the network reads it, and its target.
struct CorruptedRow {
  std::vector<float> read, target;
  bool operator==(const CorruptedRow&) const = default;
};

CorruptedRow row_of(const RowPlace& place, const TransformList& augment, const TransformList& corruption,
                    const TrainingBatches* training) {
  const CoordinateSource source;
  const BatchInputs inputs = {{.name = "images", .dtype = DType::f32, .row = {2, kCut, kCut}},
                              {.name = "clean_images", .dtype = DType::f32, .row = {2, kCut, kCut}}};
  const auto rows =
      make_image_rows(source, make_chain(augment, source.sample_shape()), inputs, training, {}, &corruption);
  std::vector<std::byte> room(static_cast<size_t>(batch_bytes(inputs, 1)));
  const Batch batch(room.data(), inputs, 1);
  rows->read(place, batch, 0, *rows->make_memory());
  const auto bytes = [&](const char* name) {
    const float* row = batch.find<float>(name);
    std::vector<float> values(row, row + 2 * kCutArea);
    for (float& value : values) value = std::round(value * 255);
    return values;
  };
  return {bytes("images"), bytes("clean_images")};
}

TransformList cut_and_mirrored() {
  TransformList list;
  list.push_back(make_transform("random_crop"));
  list.push_back(make_transform("horizontal_flip"));
  set(*list[0], "size", kCut);
  set(*list[0], "padding", int64_t{0});
  return list;
}

TransformList list_of(const char* name, const char* field, double value) {
  TransformList list;
  list.push_back(make_transform(name));
  set(*list[0], field, value);
  return list;
}

}  // namespace

TEST_CASE("the target of a corrupted image is the same crop and mirror image, without the corruption") {
  const TransformList augment = cut_and_mirrored(), none;
  TransformList corruption;
  corruption.push_back(make_transform("cutout"));
  set(*corruption[0], "size", int64_t{3});
  const TrainingBatches training{.seed = 3, .order = TrainingOrder(5, 1, true), .micro_batch = 1};
  int covered = 0, mirrored = 0;
  for (int64_t draw = 0; draw < 40; ++draw) {
    const RowPlace place{.sample = draw % 5, .epoch = draw / 5, .draw = draw % 5};
    const CorruptedRow row = row_of(place, augment, corruption, &training);
    CHECK(row.target == row_of(place, augment, none, &training).read);
    const float top = row.target[0], left = row.target[kCutArea];
    const float step = row.target[kCutArea + 1] - left;  // -1: mirrored
    mirrored += step < 0 ? 1 : 0;
    for (int64_t i = 0; i < kCutArea; ++i) {
      const auto y = static_cast<size_t>(i), x = static_cast<size_t>(kCutArea + i);
      REQUIRE(row.target[y] == top + static_cast<float>(i / kCut));
      REQUIRE(row.target[x] == left + step * static_cast<float>(i % kCut));
      const bool is_covered = row.read[y] == 0;
      covered += is_covered ? 1 : 0;
      REQUIRE(row.read[y] == (is_covered ? 0 : row.target[y]));
      REQUIRE(row.read[x] == (is_covered ? 0 : row.target[x]));
    }
  }
  CHECK(mirrored > 5);
  CHECK(mirrored < 35);
  CHECK(covered > 40 * 4);
  CHECK(covered <= 40 * 9);
}

TEST_CASE("training draws another noise in each epoch and run, evaluation the same of each sample") {
  const TransformList none = [] {
    TransformList list;
    list.push_back(make_transform("center_crop"));
    set(*list[0], "size", kCut);
    return list;
  }();
  const TransformList noise = list_of("gaussian_noise", "sigma", 0.2);
  const auto trained = [&](uint64_t seed, int64_t epoch) {
    const TrainingBatches training{.seed = seed, .order = TrainingOrder(5, 1, true), .micro_batch = 1};
    return row_of({.sample = 2, .epoch = epoch, .draw = 2}, none, noise, &training);
  };
  CHECK(trained(1, 1) == trained(1, 1));
  CHECK(trained(1, 1).read != trained(1, 2).read);
  CHECK(trained(1, 1).read != trained(2, 1).read);
  CHECK(trained(1, 1).target == trained(2, 2).target);
  const auto evaluated = [&](int64_t batch, int64_t sample) {
    return row_of({.step = batch, .index = sample % 2, .sample = sample}, none, noise, nullptr);
  };
  CHECK(evaluated(0, 2) == evaluated(1, 2));
  CHECK(evaluated(0, 2).read != evaluated(0, 3).read);
  CHECK(evaluated(0, 2).target == evaluated(0, 3).target);
}

TEST_CASE("gaussian_noise has its mean and deviation, is clipped, and leaves images with a sigma of 0") {
  const auto noisy = [](uint8_t byte, double sigma, double mean, int64_t side) {
    TransformList list = list_of("gaussian_noise", "sigma", sigma);
    set(*list[0], "mean", mean);
    Image image;
    image.resize(1, side, side);
    std::fill(image.pixels.begin(), image.pixels.end(), byte);
    RandomStream random(5);
    list[0]->apply(image, random);
    return image.pixels;
  };
  const auto moments = [](const std::vector<uint8_t>& pixels) {
    double sum = 0, squares = 0;
    for (const uint8_t pixel : pixels) sum += pixel, squares += double{1} * pixel * pixel;
    const auto count = static_cast<double>(pixels.size());
    return std::pair{sum / count, std::sqrt(squares / count - sum * sum / count / count)};
  };
  const auto [mean, deviation] = moments(noisy(100, 0.1, 0.08, 301));
  CHECK(mean == Approx(100 + 0.08 * 255).margin(0.4));
  CHECK(deviation == Approx(25.5).margin(0.3));
  const std::vector<uint8_t> black = noisy(0, 0.1, 0, 301);
  CHECK(static_cast<double>(std::ranges::count(black, 0)) / static_cast<double>(black.size()) ==
        Approx(0.5).margin(0.02));  // with what rounds to 0
  CHECK(std::ranges::count(noisy(255, 1, 0, 3), 255) >= 1);
  CHECK(noisy(77, 0, 0, 1) == std::vector<uint8_t>{77});
  CHECK(noisy(77, 0, -1, 1) == std::vector<uint8_t>{0});
}

TEST_CASE("a corruption moves no pixel, and its parameters are checked at their keys") {
  const auto problems = [](const TransformList& list) {
    Diagnostics diagnostics;
    check_corruption(list, {1, 8, 8}, diagnostics);
    return diagnostics.problems();
  };
  for (const char* name : {"gaussian_noise", "gaussian", "median", "bilateral", "color_jitter", "cutout",
                           "random_erasing", "equalize", "autocontrast"}) {
    TransformList list;
    list.push_back(make_transform(name));
    INFO(name);
    CHECK(problems(list).empty());
  }
  for (const char* name : {"random_crop", "center_crop", "resize", "horizontal_flip", "rotation", "rotate90",
                           "trivial_augment", "normalize", "window"}) {
    TransformList list;
    list.push_back(make_transform(name));
    INFO(name);
    REQUIRE(problems(list).size() == 1);
    CHECK_THAT(problems(list)[0], Catch::Matchers::ContainsSubstring("move it to data.augment"));
  }
  const auto far = problems(list_of("gaussian", "sigma", 3.0));
  REQUIRE(far.size() == 1);
  CHECK_THAT(far[0], Catch::Matchers::ContainsSubstring("too far for images of 8x8"));
}

}  // namespace trainer
