// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/graph/program.h"

namespace trainer {

/// The numbers that a network reads for bytes of images, for each channel: scale * byte + offset.
struct PixelNumbers {
  std::vector<float> scale, offset;
};

/// The same as constants of a program, f32 (C).
struct PixelConstants {
  TensorId scale, offset;
};

/// Those of an entry; made on first use.
PixelConstants pixel_constants(Program& program, const std::string& entry, const PixelNumbers& numbers);

}  // namespace trainer
