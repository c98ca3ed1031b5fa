// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data/images/image.h"

namespace trainer {

// Adjustments as torchvision defines them for tensors of bytes, its rounding towards zero included. A factor
// of 1, or a shift of 0, changes nothing. Saturation and hue are those of red, green and blue: images that
// do not have 3 channels stay as they are.

/// factor * x
void adjust_brightness(Image& image, double factor);
/// factor * x + (1 - factor) * mean grey of the image
void adjust_contrast(Image& image, double factor);
/// factor * x + (1 - factor) * grey of the pixel
void adjust_saturation(Image& image, double factor);
/// Turns the hue by `shift` full circles, in [-0.5, 0.5].
void adjust_hue(Image& image, double shift);
/// factor * x + (1 - factor) * mean of the 3x3 pixels about it, its own counted five times; not at the edges.
void adjust_sharpness(Image& image, double factor);

}  // namespace trainer
