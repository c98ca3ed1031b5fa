// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data/images/image.h"

namespace trainer {

// New values for old ones, channel by channel, as torchvision defines them for tensors of bytes.

/// Keeps the highest `bits` bits, 0 to 8.
void posterize(Image& image, int bits);
/// 255 - x if x is at least the threshold.
void solarize(Image& image, double threshold);
/// Spreads each channel over 0 to 255; one of a single value stays.
void autocontrast(Image& image);
/// Spreads each channel so that its values are about equally frequent.
void equalize(Image& image);

}  // namespace trainer
