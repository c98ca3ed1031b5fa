// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/base/multiversion.h"
#include "core/data/images/transforms/reflect.h"
#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

constexpr int64_t kMostSigma = 20, kMostRadius = 3 * kMostSigma;
constexpr int64_t kBlock = 128;  // columns done together, so that sums over rows fit into a small array

/// exp(-x^2 / (2 sigma^2)) for |x| up to the radius, with sum 1; beyond 3 sigma is 0.3 % of it.
struct Bell {
  explicit Bell(double sigma) : radius(static_cast<int64_t>(std::ceil(3 * sigma))) {
    std::array<double, 2 * kMostRadius + 1> exact{};
    double sum = 0;
    for (int64_t i = -radius; i <= radius; ++i) {
      const double x = static_cast<double>(i) / sigma;
      sum += exact[i + radius] = std::exp(-0.5 * x * x);
    }
    for (int64_t i = 0; i <= 2 * radius; ++i) weights[i] = static_cast<float>(exact[i] / sum);
  }

  int64_t radius;
  std::array<float, 2 * kMostRadius + 1> weights{};
};

constexpr int64_t kMostColumns = kBlock + 2 * kMostRadius;

/// Columns from x on of a row, those beyond an edge reflected; if none are, the row itself.
const uint8_t* columns_of(const uint8_t* row, int64_t width, int64_t x, int64_t count,
                          std::array<uint8_t, kMostColumns>& room) {
  if (x >= 0 && x + count <= width) return row + x;
  for (int64_t i = 0; i < count; ++i) room[i] = row[reflect(x + i, width)];
  return room.data();
}

/// Row y of a plane from column x, `count` of them, blurred.
TRAINER_MULTIVERSION void blur(const Bell& bell, const uint8_t* plane, int64_t height, int64_t width,
                               int64_t y, int64_t x, int64_t count, uint8_t* out) {
  const int64_t columns = count + 2 * bell.radius;
  std::array<uint8_t, kMostColumns> room;
  std::array<float, kMostColumns> sums{};
  for (int64_t k = 0; k <= 2 * bell.radius; ++k) {
    const uint8_t* row = plane + reflect(y + k - bell.radius, height) * width;
    const uint8_t* src = columns_of(row, width, x - bell.radius, columns, room);
    const float weight = bell.weights[k];
    for (int64_t i = 0; i < columns; ++i) sums[i] += weight * static_cast<float>(src[i]);
  }
  std::array<float, kBlock> blurred{};
  for (int64_t k = 0; k <= 2 * bell.radius; ++k) {
    const float weight = bell.weights[k];
    for (int64_t i = 0; i < count; ++i) blurred[i] += weight * sums[i + k];
  }
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(std::lrint(std::min(blurred[i], 255.0f)));
}

class Gaussian : public Transform {
 public:
  void declare(Fields& fields) override {
    fields.add("sigma", &sigma_, "standard deviation in pixels").above(0).at_most(kMostSigma).bare();
  }
  MaskEffect mask_effect() const override { return MaskEffect::kept; }

  Shape output_shape(const Shape& input, Diagnostics& diagnostics) const override {
    const int64_t least = std::min(input[1], input[2]), radius = Bell(sigma_).radius;
    if (radius >= least) {
      diagnostics.error(origin_of("sigma"),
                        fmt::format("reaches {} pixels, three times {}: too far for images of {}x{}", radius,
                                    sigma_, input[1], input[2]));
    }
    return input;
  }

  void apply(Image& image, RandomStream&) const override {
    const Bell bell(sigma_);
    image.spare.resize(image.pixels.size());
    for (int64_t c = 0; c < image.channels; ++c) {
      const int64_t first = c * image.height * image.width;
      for (int64_t y = 0; y < image.height; ++y) {
        for (int64_t x = 0; x < image.width; x += kBlock) {
          blur(bell, image.pixels.data() + first, image.height, image.width, y, x,
               std::min(kBlock, image.width - x), image.spare.data() + first + y * image.width + x);
        }
      }
    }
    std::swap(image.pixels, image.spare);
  }

 private:
  double sigma_ = 1;
};

}  // namespace

std::unique_ptr<Transform> make_gaussian() {
  return std::make_unique<Gaussian>();
}

}  // namespace trainer
