// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/data/images/image_decoder.h"

namespace trainer {

/// Whether the program was built with giflib.
bool reads_gif();

/// The first frame of a GIF through giflib. Transparency is dropped: such pixels have the colour that the
/// palette gives them. Pixels of the canvas beside the frame have the transparent colour, or the palette's
/// first. Throws DecodeError for damage, for a file that ends within the frame, and without giflib.
std::unique_ptr<ImageDecoder> make_gif_decoder(std::span<const uint8_t> file);

}  // namespace trainer
