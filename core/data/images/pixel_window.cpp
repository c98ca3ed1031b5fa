// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/pixel_window.h"

#include <algorithm>
#include <cmath>

namespace trainer {

uint8_t PixelWindow::byte_of(double value) const {
  const double share = std::clamp((value - from) / (to - from), 0.0, 1.0);
  return static_cast<uint8_t>(std::lround(share * 255));
}

std::vector<uint8_t> PixelWindow::table(int64_t most) const {
  std::vector<uint8_t> bytes(static_cast<size_t>(most + 1));
  for (size_t value = 0; value < bytes.size(); ++value) bytes[value] = byte_of(static_cast<double>(value));
  return bytes;
}

void PixelWindow::apply(Image& image) const {
  const std::vector<uint8_t> bytes = table(255);
  for (uint8_t& pixel : image.pixels) pixel = bytes[pixel];
}

}  // namespace trainer
