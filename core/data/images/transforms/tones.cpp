// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transforms/tones.h"

#include <algorithm>
#include <array>
#include <span>

namespace trainer {
namespace {

std::span<uint8_t> channel(Image& image, int64_t c) {
  const auto plane = static_cast<size_t>(image.height * image.width);
  return std::span(image.pixels).subspan(static_cast<size_t>(c) * plane, plane);
}

/// The table for one channel: sum of the counts below a value, in steps of a 255th of all but the last
/// value's.
std::array<uint8_t, 256> equal_table(std::span<const uint8_t> pixels) {
  std::array<int64_t, 256> counts{};
  for (uint8_t pixel : pixels) ++counts[pixel];
  const auto last = std::find_if(counts.rbegin(), counts.rend(), [](int64_t count) { return count != 0; });
  const int64_t step = (static_cast<int64_t>(pixels.size()) - (last == counts.rend() ? 0 : *last)) / 255;
  std::array<uint8_t, 256> table{};
  int64_t below = 0;
  for (size_t value = 0; value < 256; ++value) {
    const int64_t spread = step == 0 ? static_cast<int64_t>(value) : (below + step / 2) / step;
    table[value] = static_cast<uint8_t>(value == 0 ? 0 : std::min<int64_t>(spread, 255));
    below += counts[value];
  }
  return table;
}

}  // namespace

void posterize(Image& image, int bits) {
  const auto mask = static_cast<uint8_t>(0xFF << (8 - bits));
  for (uint8_t& pixel : image.pixels) pixel = pixel & mask;
}

void solarize(Image& image, double threshold) {
  for (uint8_t& pixel : image.pixels)
    pixel = static_cast<double>(pixel) >= threshold ? static_cast<uint8_t>(255 - pixel) : pixel;
}

void autocontrast(Image& image) {
  for (int64_t c = 0; c < image.channels; ++c) {
    const std::span<uint8_t> pixels = channel(image, c);
    const auto [low, high] = std::minmax_element(pixels.begin(), pixels.end());
    if (pixels.empty() || *low == *high) continue;
    const auto least = static_cast<float>(*low);
    const float scale = 255.0f / (static_cast<float>(*high) - least);
    for (uint8_t& pixel : pixels)
      pixel = static_cast<uint8_t>(std::clamp((static_cast<float>(pixel) - least) * scale, 0.0f, 255.0f));
  }
}

void equalize(Image& image) {
  for (int64_t c = 0; c < image.channels; ++c) {
    const std::array<uint8_t, 256> table = equal_table(channel(image, c));
    for (uint8_t& pixel : channel(image, c)) pixel = table[pixel];
  }
}

}  // namespace trainer
