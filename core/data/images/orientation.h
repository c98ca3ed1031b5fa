// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/data/images/decode.h"
#include "core/data/images/image.h"
#include "core/data/images/view.h"

namespace trainer {

/// The orientation in a TIFF structure, as EXIF holds it; 1 if it is missing, damaged or not 1 to 8.
int exif_orientation(std::span<const uint8_t> tiff);

/// The view of the stored image that becomes the view of `chooser` once it is turned upright.
View stored_view(const ImageHeader& header, const ViewChooser& chooser);

/// Turns the pixels of a stored view upright.
void turn_upright(Image& image, int orientation);

}  // namespace trainer
