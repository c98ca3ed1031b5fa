// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/data/images/image.h"

namespace trainer {

/// Whether images of `from` channels can become images of `to`: equal numbers, or grey (1) and RGB (3).
bool can_convert_channels(int64_t from, int64_t to);

/// Makes RGB from grey by repeating it, and grey from RGB with the weights of ITU-R 601 in 16 bits, as Pillow
/// does. Other images stay unchanged.
void convert_channels(Image& image, int64_t to);

}  // namespace trainer
