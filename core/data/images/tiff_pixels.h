// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/data/images/pixel_window.h"

namespace trainer {

/// The meaning of a pixel's first samples.
enum class TiffColours { white_is_zero, black_is_zero, rgb, palette, cmyk };

/// Turns a TIFF's packed samples into pixels of 4 bytes: red, green, blue, and one that is not used.
struct TiffPixels {
  TiffColours colours = TiffColours::black_is_zero;
  int bits = 8;                       ///< of a sample: 1, 2, 4, 8 or 16
  bool is_signed = false;             ///< 16 bits of grey or colours, for a window only
  bool has_multiplied_alpha = false;  ///< the sample after the colours, by which these were multiplied
  std::array<std::vector<uint8_t>, 3> palette;  ///< 2^bits values of each colour
  std::optional<PixelWindow> window;            ///< of samples that are shades or colours

  /// How many of a pixel's samples count, up to 4.
  int64_t used() const;
  /// Makes the table that unpack() needs.
  void prepare();
  /// Writes `used` of the `stored` samples of each of `count` pixels to the pixels' bytes from `to` on.
  /// Samples begin at number `first` of a row; 16-bit ones are in the machine's order.
  void unpack(const uint8_t* row, int64_t first, int64_t count, int64_t stored, int64_t used,
              uint8_t* to) const;
  /// Samples to colours, in place.
  void convert(uint8_t* pixels, int64_t count) const;

 private:
  std::vector<uint8_t> byte_of_;  // for each value of a sample
};

}  // namespace trainer
