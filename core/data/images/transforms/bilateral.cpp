// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/base/multiversion.h"
#include "core/data/images/transforms/reflect.h"
#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

constexpr int64_t kMostSpace = 20;
constexpr int64_t kColumns = 64;  // done together, so that their sums fit into small arrays

/// exp(-x^2 / (2 sigma^2))
double bell(double x, double sigma) {
  return std::exp(-0.5 * (x / sigma) * (x / sigma));
}

/// The rows of an image about some pixels of one row.
struct Surroundings {
  int64_t channels, radius, columns;
  std::vector<uint8_t>
      pixels;  // (2 radius + 1, channels, columns + 2 radius), those beyond an edge reflected

  Surroundings(int64_t of_image, int64_t around)
      : channels(of_image),
        radius(around),
        columns(kColumns + 2 * around),
        pixels(static_cast<size_t>((2 * around + 1) * of_image * columns)) {}

  uint8_t* row(int64_t dy, int64_t channel) {
    return pixels.data() + ((dy + radius) * channels + channel) * columns;
  }
  void load(const Image& image, int64_t y, int64_t x, int64_t count) {
    for (int64_t dy = -radius; dy <= radius; ++dy) {
      for (int64_t c = 0; c < channels; ++c) {
        const uint8_t* src =
            image.pixels.data() + (c * image.height + reflect(y + dy, image.height)) * image.width;
        uint8_t* dst = row(dy, c);
        for (int64_t i = 0; i < count + 2 * radius; ++i) dst[i] = src[reflect(x + i - radius, image.width)];
      }
    }
  }
};

/// The weights of neighbours by their distance and by the difference of their colours, the sum of the
/// channels'.
struct Weights {
  Weights(int64_t channels, int64_t around, double sigma_space, double sigma_color) : radius(around) {
    for (int64_t dy = -radius; dy <= radius; ++dy) {
      for (int64_t dx = -radius; dx <= radius; ++dx) {
        const double distance = std::hypot(dy, dx);
        space.push_back(
            distance > static_cast<double>(radius) ? 0 : static_cast<float>(bell(distance, sigma_space)));
      }
    }
    for (int64_t difference = 0; difference <= 255 * channels; ++difference)
      color.push_back(static_cast<float>(bell(static_cast<double>(difference), sigma_color)));
  }
  float of_place(int64_t dy, int64_t dx) const {
    return space[static_cast<size_t>((dy + radius) * (2 * radius + 1) + dx + radius)];
  }

  int64_t radius;
  std::vector<float> space, color;
};

using ColumnSums = std::array<float, kColumns>;

/// Adds a neighbour of each of the pixels, `place` its weight for the distance.
TRAINER_MULTIVERSION void add_neighbours(const Weights& weights, Surroundings& around, int64_t dy, int64_t dx,
                                         float place, int64_t count, ColumnSums& total,
                                         std::vector<ColumnSums>& sums) {
  std::array<int32_t, kColumns> difference{};
  for (int64_t c = 0; c < around.channels; ++c) {
    const uint8_t *centre = around.row(0, c) + around.radius, *other = around.row(dy, c) + around.radius + dx;
    for (int64_t i = 0; i < count; ++i) difference[i] += std::abs(int32_t{other[i]} - int32_t{centre[i]});
  }
  ColumnSums weight;
  for (int64_t i = 0; i < count; ++i) {
    weight[i] = place * weights.color[static_cast<size_t>(difference[i])];
    total[i] += weight[i];
  }
  for (int64_t c = 0; c < around.channels; ++c) {
    const uint8_t* other = around.row(dy, c) + around.radius + dx;
    ColumnSums& sum = sums[static_cast<size_t>(c)];
    for (int64_t i = 0; i < count; ++i) sum[i] += weight[i] * static_cast<float>(other[i]);
  }
}

/// Tomasi and Manduchi, "Bilateral filtering for gray and color images", ICCV 1998, as OpenCV's
/// bilateralFilter with d = 0: neighbours within a circle of 1.5 sigma_space.
class Bilateral : public Transform {
 public:
  void declare(Fields& fields) override {
    fields
        .add("sigma_color", &sigma_color_,
             "standard deviation of the difference of colours, where white is 255; neighbours that differ "
             "much more "
             "count little")
        .above(0)
        .at_most(765)
        .bare();
    fields.add("sigma_space", &sigma_space_, "standard deviation of the distance in pixels")
        .above(0)
        .at_most(kMostSpace);
  }
  MaskEffect mask_effect() const override { return MaskEffect::kept; }

  void apply(Image& image, RandomStream&) const override {
    const int64_t radius = std::max<int64_t>(1, std::lrint(1.5 * sigma_space_));
    const Weights weights(image.channels, radius, sigma_space_, sigma_color_);
    Surroundings around(image.channels, radius);
    std::vector<ColumnSums> sums(static_cast<size_t>(image.channels));
    image.spare.resize(image.pixels.size());
    for (int64_t y = 0; y < image.height; ++y) {
      for (int64_t x = 0; x < image.width; x += kColumns) {
        const int64_t count = std::min(kColumns, image.width - x);
        around.load(image, y, x, count);
        smooth(weights, around, count, sums);
        for (int64_t c = 0; c < image.channels; ++c) {
          uint8_t* dst = image.spare.data() + (c * image.height + y) * image.width + x;
          for (int64_t i = 0; i < count; ++i)
            dst[i] = static_cast<uint8_t>(std::lrint(sums[static_cast<size_t>(c)][static_cast<size_t>(i)]));
        }
      }
    }
    std::swap(image.pixels, image.spare);
  }

 private:
  /// The weighted means about `count` pixels.
  static void smooth(const Weights& weights, Surroundings& around, int64_t count,
                     std::vector<ColumnSums>& sums) {
    ColumnSums total{};
    std::ranges::fill(sums, ColumnSums{});
    for (int64_t dy = -weights.radius; dy <= weights.radius; ++dy) {
      for (int64_t dx = -weights.radius; dx <= weights.radius; ++dx) {
        const float place = weights.of_place(dy, dx);
        if (place > 0) add_neighbours(weights, around, dy, dx, place, count, total, sums);
      }
    }
    for (ColumnSums& sum : sums)
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) sum[i] /= total[i];
  }

  double sigma_color_ = 25, sigma_space_ = 1.5;
};

}  // namespace

std::unique_ptr<Transform> make_bilateral() {
  return std::make_unique<Bilateral>();
}

}  // namespace trainer
