// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/images/image_decoder.h"

namespace trainer {

/// JPEG through libjpeg-turbo: baseline and progressive; grey, RGB, YCbCr, CMYK, YCCK. Throws DecodeError for
/// any other, for damage, and for a file without its end.
std::unique_ptr<ImageDecoder> make_jpeg_decoder(std::span<const uint8_t> file);

}  // namespace trainer
