// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <span>
#include <vector>

#include "core/data/images/image_decoder.h"

namespace trainer {

/// PNG through libpng: every colour type and depth, interlaced or not. 16 bits are rounded to 8, transparency
/// is dropped (the colours below it stay). Throws DecodeError for damage and for a file without its end.
std::unique_ptr<ImageDecoder> make_png_decoder(std::span<const uint8_t> file);

/// Whether a file begins as every PNG does.
bool is_png(std::span<const uint8_t> file);

/// The numbers (H, W) that a PNG of up to 8 bits stores for its pixels: grey values, or places in the
/// palette. Depths below 8 bits are not stretched. Throws DecodeError, also for another size, colours, and
/// transparency.
void decode_png_values(std::span<const uint8_t> file, int64_t height, int64_t width,
                       std::vector<uint8_t>& into);

}  // namespace trainer
