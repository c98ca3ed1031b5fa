// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "core/data/images/image.h"
#include "core/data/images/view.h"

namespace trainer {

/// Why an image cannot be read: text for people, without the file's name.
class DecodeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Images with more pixels than this are refused by their header: 134 million, which no camera of one shot
/// has.
constexpr int64_t kMaxPixels = int64_t{1} << 27;

/// What an image's first bytes say of it.
struct ImageHeader {
  int64_t height = 0, width = 0;  ///< as stored
  int orientation = 1;            ///< EXIF, 1 to 8; 5 to 8 stand on their side

  bool is_transposed() const { return orientation >= 5; }
};

/// The view that `chooser` selects of a JPEG, PNG, WebP or BMP, known by its first bytes: planar RGB (3, H,
/// W). The chooser gets the upright height and width. Only what the view needs is decoded, so damage
/// elsewhere is not seen, except that the end is missing. Throws DecodeError.
void decode_image(std::span<const uint8_t> file, const ViewChooser& chooser, int64_t max_pixels, Image& into);

}  // namespace trainer
