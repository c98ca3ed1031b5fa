// SPDX-License-Identifier: Apache-2.0
#include "core/data/transforms/warp.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace trainer {
namespace {

/// One channel, 0 outside.
struct Plane {
  const uint8_t* pixels;
  int64_t height, width;

  float at(int64_t y, int64_t x) const {
    const bool inside = y >= 0 && y < height && x >= 0 && x < width;
    return inside ? static_cast<float>(pixels[y * width + x]) : 0.0f;
  }
};

uint8_t nearest(const Plane& plane, float y, float x) {
  return static_cast<uint8_t>(plane.at(std::lrint(y), std::lrint(x)));
}

uint8_t bilinear(const Plane& plane, float y, float x) {
  const float top = std::floor(y), left = std::floor(x), down = y - top, right = x - left;
  const auto v = static_cast<int64_t>(top), u = static_cast<int64_t>(left);
  const float value = plane.at(v, u) * (1 - down) * (1 - right) + plane.at(v, u + 1) * (1 - down) * right +
                      plane.at(v + 1, u) * down * (1 - right) + plane.at(v + 1, u + 1) * down * right;
  return static_cast<uint8_t>(std::lrint(value));
}

}  // namespace

Affine rotation_by(double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  return {.xx = std::cos(angle), .xy = -std::sin(angle), .yx = std::sin(angle), .yy = std::cos(angle)};
}

void warp(Image& image, const Affine& from, Sampling sampling) {
  const double middle_y = static_cast<double>(image.height - 1) / 2,
               middle_x = static_cast<double>(image.width - 1) / 2;
  image.spare.resize(image.pixels.size());
  uint8_t* out = image.spare.data();
  for (int64_t c = 0; c < image.channels; ++c) {
    const Plane plane{image.pixels.data() + c * image.height * image.width, image.height, image.width};
    for (int64_t row = 0; row < image.height; ++row) {
      const double y = static_cast<double>(row) - middle_y;
      for (int64_t column = 0; column < image.width; ++column) {
        const double x = static_cast<double>(column) - middle_x;
        const auto from_x = static_cast<float>(from.xx * x + from.xy * y + from.x0 + middle_x);
        const auto from_y = static_cast<float>(from.yx * x + from.yy * y + from.y0 + middle_y);
        *out++ =
            sampling == Sampling::nearest ? nearest(plane, from_y, from_x) : bilinear(plane, from_y, from_x);
      }
    }
  }
  std::swap(image.pixels, image.spare);
}

}  // namespace trainer
