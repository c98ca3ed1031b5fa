// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transforms/colour.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainer {
namespace {

/// factor * x + (1 - factor) * y, cut to a byte.
class Blend {
 public:
  explicit Blend(double factor) : own_(static_cast<float>(factor)), other_(static_cast<float>(1 - factor)) {}
  uint8_t operator()(uint8_t x, float y) const {
    const float mixed = own_ * static_cast<float>(x) + other_ * y;
    return static_cast<uint8_t>(std::clamp(mixed, 0.0f, 255.0f));
  }

 private:
  float own_, other_;
};

/// The grey of pixel i of an image of 3 channels.
uint8_t grey(const Image& image, int64_t i) {
  const int64_t plane = image.height * image.width;
  const uint8_t* pixels = image.pixels.data() + i;
  const float mixed = 0.2989f * static_cast<float>(pixels[0]) + 0.587f * static_cast<float>(pixels[plane]) +
                      0.114f * static_cast<float>(pixels[2 * plane]);
  return static_cast<uint8_t>(mixed);
}

float mean_grey(const Image& image) {
  const int64_t plane = image.height * image.width;
  int64_t sum = 0;
  if (image.channels == 3) {
    for (int64_t i = 0; i < plane; ++i) sum += grey(image, i);
    return static_cast<float>(static_cast<double>(sum) / static_cast<double>(plane));
  }
  for (uint8_t pixel : image.pixels) sum += pixel;
  return static_cast<float>(static_cast<double>(sum) / static_cast<double>(image.pixels.size()));
}

struct Hsv {
  float h, s, v;  // each in [0, 1]
};

Hsv to_hsv(float r, float g, float b) {
  const float most = std::max({r, g, b}), range = most - std::min({r, g, b});
  if (range == 0) return {0, 0, most};
  const float rc = (most - r) / range, gc = (most - g) / range, bc = (most - b) / range;
  const float sixths = most == r ? bc - gc : most == g ? 2.0f + rc - bc : 4.0f + gc - rc;
  return {std::fmod(sixths / 6.0f + 1.0f, 1.0f), range / most, most};
}

struct Rgb {
  float r, g, b;
};

Rgb to_rgb(const Hsv& x) {
  const float sixth = std::floor(x.h * 6.0f), f = x.h * 6.0f - sixth, v = x.v;
  const auto share = [&](float of) { return std::clamp(v * (1.0f - of), 0.0f, 1.0f); };
  const float p = share(x.s), q = share(x.s * f), t = share(x.s * (1.0f - f));
  switch (static_cast<int>(sixth) % 6) {
    case 0:
      return {v, t, p};
    case 1:
      return {q, v, p};
    case 2:
      return {p, v, t};
    case 3:
      return {p, q, v};
    case 4:
      return {t, p, v};
    default:
      return {v, p, q};
  }
}

/// [0, 1] in 256 equal parts.
uint8_t to_byte(float x) {
  return static_cast<uint8_t>(x * (256 - 1e-3f));
}

}  // namespace

void adjust_brightness(Image& image, double factor) {
  const Blend blend(factor);
  for (uint8_t& pixel : image.pixels) pixel = blend(pixel, 0);
}

void adjust_contrast(Image& image, double factor) {
  const Blend blend(factor);
  const float mean = mean_grey(image);
  for (uint8_t& pixel : image.pixels) pixel = blend(pixel, mean);
}

void adjust_saturation(Image& image, double factor) {
  if (image.channels != 3) return;
  const Blend blend(factor);
  const int64_t plane = image.height * image.width;
  for (int64_t i = 0; i < plane; ++i) {
    const auto level = static_cast<float>(grey(image, i));
    uint8_t* pixels = image.pixels.data() + i;
    for (int64_t c = 0; c < 3; ++c) pixels[c * plane] = blend(pixels[c * plane], level);
  }
}

void adjust_hue(Image& image, double shift) {
  if (image.channels != 3) return;
  const int64_t plane = image.height * image.width;
  const auto turn = static_cast<float>(shift);
  for (int64_t i = 0; i < plane; ++i) {
    uint8_t* pixels = image.pixels.data() + i;
    const auto unit = [&](int64_t c) { return static_cast<float>(pixels[c * plane]) / 255.0f; };
    Hsv hsv = to_hsv(unit(0), unit(1), unit(2));
    hsv.h += turn;
    hsv.h -= std::floor(hsv.h);
    const Rgb turned = to_rgb(hsv);
    pixels[0] = to_byte(turned.r);
    pixels[plane] = to_byte(turned.g);
    pixels[2 * plane] = to_byte(turned.b);
  }
}

void adjust_sharpness(Image& image, double factor) {
  const int64_t height = image.height, width = image.width;
  if (height <= 2 || width <= 2) return;
  const Blend blend(factor);
  image.spare.resize(image.pixels.size());
  // Edges are blended with themselves, which rounding may darken by one.
  std::transform(image.pixels.begin(), image.pixels.end(), image.spare.begin(),
                 [&](uint8_t x) { return blend(x, x); });
  for (int64_t c = 0; c < image.channels; ++c) {
    for (int64_t y = 1; y < height - 1; ++y) {
      const uint8_t* row = image.pixels.data() + (c * height + y) * width;
      uint8_t* out = image.spare.data() + (c * height + y) * width;
      for (int64_t x = 1; x < width - 1; ++x) {
        int sum = 4 * row[x];
        for (int64_t around = x - 1; around <= x + 1; ++around)
          sum += row[around - width] + row[around] + row[around + width];
        constexpr int kWeights = 13;
        const int blurred =
            (2 * sum + kWeights) / (2 * kWeights);  // to the nearest: odd weights leave no ties
        out[x] = blend(row[x], static_cast<float>(blurred));
      }
    }
  }
  std::swap(image.pixels, image.spare);
}

}  // namespace trainer
