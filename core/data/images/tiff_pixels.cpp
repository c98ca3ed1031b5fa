// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/tiff_pixels.h"

#include <algorithm>
#include <cstring>

namespace trainer {
namespace {

/// As Pillow does it; nothing is known of the colour of a pixel that is not seen at all.
uint8_t divided(uint8_t colour, uint8_t alpha) {
  return alpha == 0 ? uint8_t{0} : static_cast<uint8_t>(std::min(colour * 255 / alpha, 255));
}

template <class Value>
void unpack_samples(const Value& value, const uint8_t* byte_of, int64_t first, int64_t count, int64_t stored,
                    int64_t used, uint8_t* to) {
  for (int64_t x = 0; x < count; ++x, first += stored, to += 4) {
    for (int64_t s = 0; s < used; ++s) to[s] = byte_of[value(first + s)];
  }
}

}  // namespace

int64_t TiffPixels::used() const {
  if (colours == TiffColours::palette) return 1;
  if (colours == TiffColours::cmyk) return 4;
  return (colours == TiffColours::rgb ? 3 : 1) + (has_multiplied_alpha ? 1 : 0);
}

void TiffPixels::prepare() {
  const size_t most = (size_t{1} << bits) - 1;
  byte_of_.resize(most + 1);
  for (size_t value = 0; value <= most; ++value) {
    const size_t seen = colours == TiffColours::white_is_zero ? most - value : value;
    const size_t scaled = colours == TiffColours::palette ? value : (seen * 255 + most / 2) / most;
    const double stored =
        is_signed ? static_cast<int16_t>(seen) : static_cast<double>(bits == 16 ? seen : scaled);
    byte_of_[value] = window ? window->byte_of(stored) : static_cast<uint8_t>(scaled);
  }
}

void TiffPixels::unpack(const uint8_t* row, int64_t first, int64_t count, int64_t stored, int64_t used,
                        uint8_t* to) const {
  const uint8_t* byte_of = byte_of_.data();
  if (bits == 8) {
    unpack_samples([row](int64_t i) { return row[i]; }, byte_of, first, count, stored, used, to);
  } else if (bits == 16) {
    const auto value = [row](int64_t i) {
      uint16_t number = 0;
      std::memcpy(&number, row + 2 * i, sizeof number);
      return number;
    };
    unpack_samples(value, byte_of, first, count, stored, used, to);
  } else {
    const auto value = [row, width = int64_t{bits}](int64_t i) {
      const int64_t bit = i * width;
      return row[bit / 8] >> (8 - width - bit % 8) & ((1 << width) - 1);
    };
    unpack_samples(value, byte_of, first, count, stored, used, to);
  }
}

void TiffPixels::convert(uint8_t* pixels, int64_t count) const {
  const int64_t alpha = has_multiplied_alpha ? used() - 1 : 0;
  for (uint8_t* p = pixels; p < pixels + 4 * count; p += 4) {
    for (int64_t c = 0; c < alpha; ++c) p[c] = divided(p[c], p[alpha]);
    switch (colours) {
      case TiffColours::rgb:
        break;
      case TiffColours::palette: {
        const size_t index = p[0];
        for (size_t c = 0; c < 3; ++c) p[c] = palette[c][index];
        break;
      }
      case TiffColours::cmyk:  // the paper that each ink leaves white
        for (int64_t c = 0; c < 3; ++c)
          p[c] = static_cast<uint8_t>(((255 - p[c]) * (255 - p[3]) + 127) / 255);
        break;
      default:
        p[1] = p[2] = p[0];
    }
  }
}

}  // namespace trainer
