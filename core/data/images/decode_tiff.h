// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/images/image_decoder.h"

namespace trainer {

/// Whether the program was built with libtiff.
bool reads_tiff();

/// The first page of a TIFF or BigTIFF through libtiff: grey, RGB, palettes and CMYK of unsigned integers, in
/// strips or tiles. Transparency is dropped; colours stored as multiplied by it are divided by it first.
/// Throws DecodeError for other kinds, for damage, for a file that ends too soon, and without libtiff.
std::unique_ptr<ImageDecoder> make_tiff_decoder(std::span<const uint8_t> file);

}  // namespace trainer
