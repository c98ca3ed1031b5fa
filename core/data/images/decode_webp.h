// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/images/image_decoder.h"

namespace trainer {

/// A still WebP through libwebp, lossy or lossless. Transparency is dropped (the colours below it stay).
/// Throws DecodeError for an animation, for damage, and for a file without its end.
std::unique_ptr<ImageDecoder> make_webp_decoder(std::span<const uint8_t> file);

}  // namespace trainer
