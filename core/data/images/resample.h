// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/data/images/image.h"
#include "core/data/images/view.h"

namespace trainer {

/// Rows of 4 bytes a pixel: red, green, blue, and one that is not used.
struct PixelRows {
  const uint8_t* data = nullptr;
  int64_t stride = 0;  ///< bytes from one row to the next
};

/// The pixels [first, end) of an axis that resampling a view reads.
struct PixelRange {
  int64_t first = 0, end = 0;
};
PixelRange pixels_read(const AxisView& axis);

/// Bilinear with anti-aliasing (a triangle as wide as the scale), as Pillow and torchvision do it, in fp32;
/// the result, rounded once, is planar (3, view.y.out, view.x.out). Keeps the label.
void resample(const PixelRows& rows, const View& view, Image& into);

/// The same from planar to planar, any number of channels; the mask as resample_mask does.
void resample(Image& image, const View& view);

/// The view of a mask (height, width): the pixel at the centre of each that is made.
void resample_mask(const std::vector<uint8_t>& mask, int64_t width, const View& view,
                   std::vector<uint8_t>& into);

}  // namespace trainer
