// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/pixel_classes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainer {
namespace {

/// Where a pixel is between two of the network's output.
struct Between {
  int64_t low = 0, high = 0;
  float share = 0;  ///< of `high`
  bool is_seen = false;
};

Between place_of(int64_t pixel, const AxisView& axis) {
  const double at = (static_cast<double>(pixel) + 0.5 - axis.begin) / axis.scale();
  if (at < 0 || at > static_cast<double>(axis.out)) return {};
  const double centre = std::clamp(at - 0.5, 0.0, static_cast<double>(axis.out - 1));
  const auto low = static_cast<int64_t>(centre);
  return {low, std::min(low + 1, axis.out - 1), static_cast<float>(centre - std::floor(centre)), true};
}

std::vector<Between> places_of(int64_t size, const AxisView& axis) {
  std::vector<Between> all;
  for (int64_t i = 0; i < size; ++i) all.push_back(place_of(i, axis));
  return all;
}

/// For a class, compares its logits along a row of pixels with the best so far.
void compete(const std::vector<float>& line, const std::vector<Between>& columns, uint8_t own,
             std::vector<float>& best, uint8_t* classes) {
  for (size_t x = 0; x < columns.size(); ++x) {
    const Between& at = columns[x];
    const float low = line[static_cast<size_t>(at.low)], high = line[static_cast<size_t>(at.high)];
    const float logit = low + at.share * (high - low);
    if (!at.is_seen || !(logit > best[x])) continue;
    best[x] = logit;
    classes[x] = own;
  }
}

}  // namespace

std::vector<uint8_t> pixel_classes(std::span<const float> logits, const Shape& shape, const View& view,
                                   int64_t height, int64_t width) {
  const std::vector<Between> columns = places_of(width, view.x);
  std::vector<uint8_t> classes(static_cast<size_t>(height * width), kNoPrediction);
  std::vector<float> line(static_cast<size_t>(shape[2])), best;
  for (int64_t y = 0; y < height; ++y) {
    const Between row = place_of(y, view.y);
    if (!row.is_seen) continue;
    best.assign(columns.size(), -std::numeric_limits<float>::infinity());
    for (int64_t c = 0; c < shape[0]; ++c) {
      const float* low = logits.data() + (c * shape[1] + row.low) * shape[2];
      const float* high = logits.data() + (c * shape[1] + row.high) * shape[2];
      for (size_t u = 0; u < line.size(); ++u) line[u] = low[u] + row.share * (high[u] - low[u]);
      compete(line, columns, static_cast<uint8_t>(c), best, classes.data() + y * width);
    }
  }
  return classes;
}

const std::array<Colour, 256>& class_palette() {
  static const std::array<Colour, 256> palette = [] {
    std::array<Colour, 256> all{};
    for (size_t place = 0; place < all.size(); ++place) {
      // Three bits of the number at a time, one for each colour, from their highest bit on.
      for (size_t rest = place, bit = 7; rest != 0; rest >>= 3, --bit) {
        for (size_t c = 0; c < 3; ++c)
          all[place][c] = static_cast<uint8_t>(all[place][c] | (rest >> c & 1) << bit);
      }
    }
    return all;
  }();
  return palette;
}

}  // namespace trainer
