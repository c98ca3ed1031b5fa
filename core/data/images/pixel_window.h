// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/data/images/image.h"

namespace trainer {

/// The stored values that become black, 0, and white, 255. Those between them are spread evenly and rounded,
/// those outside are clipped. `from` is below `to`.
struct PixelWindow {
  double from = 0, to = 255;

  uint8_t byte_of(double value) const;
  /// The byte of each value from 0 to `most`.
  std::vector<uint8_t> table(int64_t most) const;
  /// Of an image that was stored as bytes.
  void apply(Image& image) const;

  bool operator==(const PixelWindow&) const = default;
};

}  // namespace trainer
