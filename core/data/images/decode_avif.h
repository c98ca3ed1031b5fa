// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/images/image_decoder.h"

namespace trainer {

/// Whether the program was built with libavif.
bool reads_avif();

/// The image of an AVIF, or a sequence's first, through libavif, of any depth. Turned as its container says;
/// transparency is dropped, as PNG's is. Throws DecodeError for damage, for a file that ends too soon, and
/// without libavif.
std::unique_ptr<ImageDecoder> make_avif_decoder(std::span<const uint8_t> file);

}  // namespace trainer
