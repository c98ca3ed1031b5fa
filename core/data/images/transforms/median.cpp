// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "core/base/multiversion.h"
#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

constexpr int64_t kLanes = 64;  // neighbours with medians that are found together, in vector registers
constexpr int64_t kMostSide = 5;
using Lanes = std::array<uint8_t, kLanes>;

/// Puts the smaller of each lane into a, the larger into b.
inline void sort_two(Lanes& a, Lanes& b) {
  for (size_t i = 0; i < kLanes; ++i) {
    const uint8_t low = std::min(a[i], b[i]), high = std::max(a[i], b[i]);
    a[i] = low, b[i] = high;
  }
}

/// Rows of the image about some pixels, edges repeated.
struct Neighbours {
  std::array<std::array<uint8_t, kLanes + kMostSide - 1>, kMostSide> rows;

  void load(const uint8_t* plane, int64_t height, int64_t width, int64_t y, int64_t x, int64_t side) {
    for (int64_t r = 0; r < side; ++r) {
      const uint8_t* row = plane + std::clamp<int64_t>(y + r - side / 2, 0, height - 1) * width;
      for (int64_t i = 0; i < kLanes + side - 1; ++i)
        rows[r][i] = row[std::clamp<int64_t>(x + i - side / 2, 0, width - 1)];
    }
  }
  /// Value number k of each lane's window.
  void get(int64_t k, int64_t side, Lanes& lanes) const {
    const auto begin = rows[k / side].begin() + k % side;
    std::copy(begin, begin + kLanes, lanes.begin());
  }
};

/// Of half of the values and two more, neither the least nor the greatest can be the median. Both are dropped
/// and one of the others is added, until three are left.
TRAINER_MULTIVERSION Lanes find_median(const Neighbours& neighbours, int64_t side) {
  std::array<Lanes, kMostSide * kMostSide / 2 + 2> held;
  const int64_t all = side * side;
  int64_t count = all / 2 + 2, next = count;
  for (int64_t k = 0; k < count; ++k) neighbours.get(k, side, held[k]);
  for (;; --count) {
    for (int64_t k = 1; k < count; ++k) sort_two(held[0], held[k]);
    for (int64_t k = 1; k < count - 1; ++k) sort_two(held[k], held[count - 1]);
    if (count == 3) return held[1];
    neighbours.get(next++, side, held[0]);
  }
}

class Median : public Transform {
 public:
  void declare(Fields& fields) override {
    fields.add("size", &size_, "side of the window in pixels, 3 or 5").at_least(3).at_most(kMostSide).bare();
  }
  MaskEffect mask_effect() const override { return MaskEffect::kept; }

  Shape output_shape(const Shape& input, Diagnostics& diagnostics) const override {
    if (size_ % 2 == 0) diagnostics.error(origin_of("size"), "must be 3 or 5, got 4");
    return input;
  }

  void apply(Image& image, RandomStream&) const override {
    image.spare.resize(image.pixels.size());
    Neighbours neighbours{};
    for (int64_t c = 0; c < image.channels; ++c) {
      const int64_t first = c * image.height * image.width;
      for (int64_t y = 0; y < image.height; ++y) {
        for (int64_t x = 0; x < image.width; x += kLanes) {
          neighbours.load(image.pixels.data() + first, image.height, image.width, y, x, size_);
          const Lanes medians = find_median(neighbours, size_);
          std::copy_n(medians.begin(), std::min(kLanes, image.width - x),
                      image.spare.begin() + first + y * image.width + x);
        }
      }
    }
    std::swap(image.pixels, image.spare);
  }

 private:
  int64_t size_ = 3;
};

}  // namespace

std::unique_ptr<Transform> make_median() {
  return std::make_unique<Median>();
}

}  // namespace trainer
