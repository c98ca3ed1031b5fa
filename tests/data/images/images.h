// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/data/images/image.h"

namespace trainer {

/// Bytes as a file format stores them: rows of pixels of `channels` values.
struct Drawing {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> values;

  uint8_t& at(int y, int x, int c) {
    return values[(static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) *
                      static_cast<size_t>(channels) +
                  static_cast<size_t>(c)];
  }
};

Drawing draw(int height, int width, int channels, const std::function<int(int y, int x, int c)>& value);
/// Smooth, different in every direction and channel, with some noise: survives JPEG well enough to compare.
Drawing landscape(int height, int width, int channels = 3);

struct JpegOptions {
  int quality = 90;
  std::string colours = "ycc";  ///< grey, rgb, ycc, cmyk, ycck
  bool adobe = true;            ///< the marker by which Adobe's programs declare that they store 255 - ink
  int h_samples = 1, v_samples = 1;
  bool progressive = false;
  int restart_rows = 0;
  int orientation = 0;  ///< 0: no EXIF
};
std::string jpeg(const Drawing& drawing, const JpegOptions& options = {});

/// A whole colour JPEG as libjpeg alone decodes it.
Image by_libjpeg(const std::string& file);

struct PngOptions {
  int bits = 8;
  bool interlaced = false;
  std::vector<uint8_t> palette;        ///< red, green, blue for each value; then `channels` is 1
  std::vector<uint8_t> palette_alpha;  ///< a transparency for each value
  int orientation = 0;
};
/// Channels: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA. 16 bits: each value v is stored as v * 257.
std::string png(const Drawing& drawing, const PngOptions& options = {});

}  // namespace trainer
