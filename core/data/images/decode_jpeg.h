// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data/images/decode.h"

namespace trainer {

/// JPEG through libjpeg-turbo: baseline and progressive; grey, RGB, YCbCr, CMYK, YCCK. Throws DecodeError for
/// any other, for damage, and for a file without its end. See decode_picture.
PictureHeader read_jpeg_header(std::span<const uint8_t> file);
void decode_jpeg(std::span<const uint8_t> file, const ViewChooser& chooser, int64_t max_pixels, Image& into);

}  // namespace trainer
