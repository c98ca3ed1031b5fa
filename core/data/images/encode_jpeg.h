// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/data/images/image.h"

namespace trainer {

/// The bytes of a baseline JPEG file of an image, grey or RGB for 1 or 3 channels, by libjpeg-turbo with
/// subsampled colours as its cjpeg makes them. Quality is 1 to 100. Throws std::invalid_argument for images
/// that JPEG cannot hold.
std::string encode_jpeg(const Image& image, int64_t quality);

}  // namespace trainer
