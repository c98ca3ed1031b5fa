// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/shape.h"
#include "core/data/images/encode_png.h"
#include "core/data/images/view.h"

namespace trainer {

/// In place of a class, for pixels that the network has not seen.
constexpr uint8_t kNoPrediction = 255;

/// The class of each pixel of an image (height, width), from logits (C, H, W) for a view of it: of the
/// largest logit between those of the four nearest pixels, the lower one among equals. At most 255 classes.
std::vector<uint8_t> pixel_classes(std::span<const float> logits, const Shape& shape, const View& view,
                                   int64_t height, int64_t width);

/// The colours of PASCAL VOC's masks, which neighbouring classes have far apart: 0 is black.
const std::array<Colour, 256>& class_palette();

}  // namespace trainer
