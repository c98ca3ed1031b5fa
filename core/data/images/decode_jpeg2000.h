// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/images/image_decoder.h"

namespace trainer {

/// Whether the program was built with OpenJPEG.
bool reads_jpeg2000();

/// A JPEG 2000 file or bare codestream through OpenJPEG: grey, RGB and palettes, up to 16 bits, with or
/// without alpha, which is dropped. Throws DecodeError for other kinds, for damage, for a file that ends too
/// soon, and without OpenJPEG.
std::unique_ptr<ImageDecoder> make_jpeg2000_decoder(std::span<const uint8_t> file);

}  // namespace trainer
