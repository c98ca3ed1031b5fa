// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/channels.h"

#include <algorithm>

namespace trainer {
namespace {

void make_grey(Image& image) {
  constexpr uint32_t kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 1u << 15;
  const auto area = static_cast<size_t>(image.height * image.width);
  for (size_t i = 0; i < area; ++i) {
    const uint8_t* p = image.pixels.data() + i;
    const uint32_t sum = kRed * p[0] + kGreen * p[area] + kBlue * p[2 * area] + kHalf;
    image.pixels[i] = static_cast<uint8_t>(sum >> 16);
  }
  image.resize(1, image.height, image.width);
}

void make_rgb(Image& image) {
  const int64_t area = image.height * image.width;
  image.resize(3, image.height, image.width);
  for (int64_t c = 1; c < 3; ++c) std::copy_n(image.pixels.data(), area, image.pixels.data() + c * area);
}

}  // namespace

bool can_convert_channels(int64_t from, int64_t to) {
  return from == to || (from == 1 && to == 3) || (from == 3 && to == 1);
}

void convert_channels(Image& image, int64_t to) {
  if (image.channels == 3 && to == 1) make_grey(image);
  if (image.channels == 1 && to == 3) make_rgb(image);
}

}  // namespace trainer
