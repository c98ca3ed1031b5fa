// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainer {

/// One labelled image: bytes in planar order (C, H, W). Reused from sample to sample, so that its memory is
/// kept.
struct Image {
  int64_t channels = 0, height = 0, width = 0;
  int32_t label = 0;
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> mask;        ///< (H, W), the class of each pixel; empty: the image has none
  uint8_t mask_padding = 0;         ///< the value in the mask of pixels from outside of the image
  std::vector<uint8_t> spare_mask;  ///< room for a mask that is moved; swapped with mask
  std::vector<uint8_t> spare;       ///< room for work that cannot be done in place; swapped with pixels
  std::vector<uint8_t> encoded;     ///< room for a file's bytes
  std::vector<float> lines;         ///< room for rows on their way to another size

  void resize(int64_t new_channels, int64_t new_height, int64_t new_width) {
    channels = new_channels, height = new_height, width = new_width;
    pixels.resize(static_cast<size_t>(channels * height * width));
  }
};

}  // namespace trainer
