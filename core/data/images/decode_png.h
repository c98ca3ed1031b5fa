// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data/images/decode.h"

namespace trainer {

/// PNG through libpng: every colour type and depth, interlaced or not. 16 bits are rounded to 8, transparency
/// is dropped (the colours below it stay). Throws DecodeError for damage and for a file without its end. See
/// decode_picture.
PictureHeader read_png_header(std::span<const uint8_t> file);
void decode_png(std::span<const uint8_t> file, const ViewChooser& chooser, int64_t max_pixels, Image& into);

}  // namespace trainer
