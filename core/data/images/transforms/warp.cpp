// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transforms/warp.h"

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace trainer {
namespace {

/// The source pixels of one result: positions within a channel, and their weights, 0 for those outside.
struct Neighbours {
  std::array<int64_t, 4> place{};
  std::array<float, 4> weight{};
  size_t count = 0;

  void add(const Image& image, int64_t y, int64_t x, float share) {
    if (y < 0 || y >= image.height || x < 0 || x >= image.width) return;
    place[count] = y * image.width + x;
    weight[count++] = share;
  }

  float of(const uint8_t* channel) const {
    float sum = 0;
    for (size_t i = 0; i < count; ++i) sum += static_cast<float>(channel[place[i]]) * weight[i];
    return sum;
  }
};

Neighbours nearest_pixel(const Image& image, float y, float x) {
  Neighbours blend;
  blend.add(image, std::lrint(y), std::lrint(x), 1);
  return blend;
}

Neighbours bilinear(const Image& image, float y, float x) {
  const float top = std::floor(y), left = std::floor(x), down = y - top, right = x - left;
  const auto v = static_cast<int64_t>(top), u = static_cast<int64_t>(left);
  Neighbours blend;
  blend.add(image, v, u, (1 - down) * (1 - right));
  blend.add(image, v, u + 1, (1 - down) * right);
  blend.add(image, v + 1, u, down * (1 - right));
  blend.add(image, v + 1, u + 1, down * right);
  return blend;
}

}  // namespace

Affine rotation_by(double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  return {.xx = std::cos(angle), .xy = -std::sin(angle), .yx = std::sin(angle), .yy = std::cos(angle)};
}

void warp(Image& image, const Affine& from, Sampling sampling) {
  const double middle_y = static_cast<double>(image.height - 1) / 2,
               middle_x = static_cast<double>(image.width - 1) / 2;
  const int64_t plane = image.height * image.width;
  image.spare.resize(image.pixels.size());
  image.spare_mask.assign(image.mask.size(), image.mask_padding);
  uint8_t* mask = image.mask.empty() ? nullptr : image.spare_mask.data();
  uint8_t* out = image.spare.data();
  for (int64_t row = 0; row < image.height; ++row) {
    const double y = static_cast<double>(row) - middle_y;
    for (int64_t column = 0; column < image.width; ++column, ++out) {
      const double x = static_cast<double>(column) - middle_x;
      const auto from_x = static_cast<float>(from.xx * x + from.xy * y + from.x0 + middle_x);
      const auto from_y = static_cast<float>(from.yx * x + from.yy * y + from.y0 + middle_y);
      const Neighbours blend = sampling == Sampling::nearest ? nearest_pixel(image, from_y, from_x)
                                                             : bilinear(image, from_y, from_x);
      for (int64_t c = 0; c < image.channels; ++c)
        out[c * plane] = static_cast<uint8_t>(std::lrint(blend.of(image.pixels.data() + c * plane)));
      if (mask == nullptr) continue;
      if (const Neighbours own = nearest_pixel(image, from_y, from_x); own.count > 0)
        *mask = image.mask[static_cast<size_t>(own.place[0])];
      ++mask;
    }
  }
  std::swap(image.mask, image.spare_mask);
  std::swap(image.pixels, image.spare);
}

}  // namespace trainer
