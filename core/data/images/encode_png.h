// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/shape.h"

namespace trainer {

using Colour = std::array<uint8_t, 3>;  ///< red, green, blue

/// The bytes of a PNG file of a planar image (C, H, W), grey or RGB for 1 or 3 channels. Throws
/// std::invalid_argument for other shapes.
std::string encode_png(std::span<const uint8_t> pixels, const Shape& shape);

/// The same of places in a palette, (1, H, W). Each is below the palette's size, which is at most 256.
std::string encode_png(std::span<const uint8_t> places, const Shape& shape, std::span<const Colour> palette);

/// The image made smaller by averaging, so that no side is longer than `most` pixels; (C, H, W) in `shape`
/// becomes its size. Smaller images stay as they are.
std::vector<uint8_t> make_thumbnail(std::span<const uint8_t> pixels, Shape& shape, int64_t most);

}  // namespace trainer
