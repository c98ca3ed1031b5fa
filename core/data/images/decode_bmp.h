// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/images/image_decoder.h"

namespace trainer {

/// An uncompressed BMP of 1, 4, 8, 24 or 32 bits a pixel, rows upwards or downwards; the fourth byte of 32
/// bits is dropped. Throws DecodeError for any other, by its name, for damage, and for a file without its
/// end.
std::unique_ptr<ImageDecoder> make_bmp_decoder(std::span<const uint8_t> file);

}  // namespace trainer
