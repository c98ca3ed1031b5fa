// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/images/image_decoder.h"

namespace trainer {

/// PNG through libpng: every colour type and depth, interlaced or not. 16 bits are rounded to 8, transparency
/// is dropped (the colours below it stay). Throws DecodeError for damage and for a file without its end.
std::unique_ptr<ImageDecoder> make_png_decoder(std::span<const uint8_t> file);

}  // namespace trainer
