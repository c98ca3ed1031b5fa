// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/synthetic.h"

#include <cmath>
#include <vector>
#include "tests/catch.h"

namespace trainer {
namespace {

double distance(const std::vector<double>& a, const std::vector<uint8_t>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(a[i] - b[i], 2);
  return sum;
}

TEST_CASE("synthetic samples depend on seed, split and index only") {
  const Shape shape = GENERATE(Shape{1, 28, 28}, Shape{3, 5, 7}, Shape{1, 1, 2});
  const auto a = make_synthetic(1, Split::train, 50, shape, 10),
             b = make_synthetic(1, Split::train, 60, shape, 10);
  const auto val = make_synthetic(1, Split::val, 50, shape, 10),
             other = make_synthetic(2, Split::train, 50, shape, 10);
  Image x, y;
  int same_as_val = 0, same_as_other = 0;
  for (int64_t i = 0; i < 50; ++i) {
    a->read(49 - i, x);
    b->read(49 - i, y);
    CHECK(x.pixels == y.pixels);
    CHECK(x.label == y.label);
    CHECK(x.label >= 0);
    CHECK(x.label < 10);
    val->read(49 - i, y);
    same_as_val += x.pixels == y.pixels;
    other->read(49 - i, y);
    same_as_other += x.pixels == y.pixels;
  }
  CHECK(same_as_val <= 1);
  CHECK(same_as_other <= 1);
}

TEST_CASE("synthetic classes can be told apart, on samples that were not seen") {
  const uint64_t seed = GENERATE(1u, 77u);
  constexpr int64_t kClasses = 10;
  const Shape shape = {1, 28, 28};
  const auto train = make_synthetic(seed, Split::train, 500, shape, kClasses);
  const auto val = make_synthetic(seed, Split::val, 300, shape, kClasses);
  CHECK(train->size() == 500);
  CHECK(train->classes() == kClasses);
  CHECK(train->sample_shape() == shape);
  std::vector<std::vector<double>> mean(kClasses, std::vector<double>(28 * 28));
  std::vector<int> count(kClasses);
  Image image;
  for (int64_t i = 0; i < train->size(); ++i) {
    train->read(i, image);
    const auto label = static_cast<size_t>(image.label);
    ++count[label];
    for (size_t p = 0; p < image.pixels.size(); ++p) mean[label][p] += image.pixels[p];
  }
  for (size_t label = 0; label < kClasses; ++label) {
    CHECK(count[label] > 20);
    for (double& value : mean[label]) value /= count[label];
  }
  int right = 0;
  for (int64_t i = 0; i < val->size(); ++i) {
    val->read(i, image);
    size_t nearest_class = 0;
    for (size_t label = 1; label < kClasses; ++label) {
      if (distance(mean[label], image.pixels) < distance(mean[nearest_class], image.pixels))
        nearest_class = label;
    }
    right += nearest_class == static_cast<size_t>(image.label);
  }
  CHECK(right > 290);
}

}  // namespace
}  // namespace trainer
