// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/data/images/image.h"

namespace trainer {

using Colour = std::array<uint8_t, 3>;  ///< red, green, blue

/// A planar RGB image (3, H, W) as the bytes of a PNG.
std::vector<uint8_t> encode_png(const Image& image);

/// Places in a palette, (H, W), as the bytes of a PNG; each is below the palette's size, at most 256.
std::vector<uint8_t> encode_png(std::span<const uint8_t> places, int64_t height, int64_t width,
                                std::span<const Colour> palette);

}  // namespace trainer
