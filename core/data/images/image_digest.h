// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

/// How an image looks, whatever its size.
struct Appearance {
  uint64_t hash = 0;                       ///< see appearance_of
  std::array<uint8_t, 64> thumbnail = {};  ///< in grey, (8, 8)
};

/// What is kept of an image to find others like it.
struct ImageDigest {
  uint64_t contents = 0;  ///< a checksum of its size and pixels
  Appearance appearance;
  uint64_t labels = 0;       ///< its label, or a checksum of its set of labels or of its mask
  bool is_readable = false;  ///< otherwise nothing else is set
  bool is_one_color = false;
};

/// The hash has 64 bits, which change little with the image's size, its brightness and another compression:
/// of the image in grey and 32 x 32 pixels, the 8 x 8 lowest frequencies of the cosine transform but those of
/// the mean's row and column, and for each whether it is above their median (Zauner, "Implementation and
/// benchmarking of perceptual image hash functions", 2010).
Appearance appearance_of(const Image& image);

/// Of each sample, read once by one of these threads, after the window if one is given.
std::vector<ImageDigest> digest(const ImageSource& source, int64_t threads,
                                const PixelWindow* window = nullptr);

}  // namespace trainer
