// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "core/data/images/image.h"
#include "core/data/images/view.h"

namespace trainer {

/// The reason why an image cannot be read: text for people, without the file's name.
class DecodeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Images with more pixels than this are refused by their header: 134 million, which no camera of one shot
/// has.
constexpr int64_t kMaxPixels = int64_t{1} << 27;

/// Properties that an image's first bytes give.
struct ImageHeader {
  int64_t height = 0, width = 0;  ///< as stored
  int orientation = 1;            ///< EXIF, 1 to 8; 5 to 8 swap rows and columns

  bool is_transposed() const { return orientation >= 5; }
};

/// The ending of an image file's name by its first bytes, such as "jpg"; empty if decode_image() reads no
/// such file.
std::string image_file_ending(std::span<const uint8_t> file);

/// The view that `chooser` selects of a JPEG, PNG, WebP, BMP, GIF, TIFF, AVIF or JPEG 2000 file, known by its
/// first bytes: planar RGB (3, H, W). The chooser gets the upright height and width. Only what the view needs
/// is decoded, so damage elsewhere is not seen, except for a missing end. The chooser's window applies to the
/// values of up to 16 bits that PNG, TIFF and JPEG 2000 files store, otherwise to bytes. Throws DecodeError.
void decode_image(std::span<const uint8_t> file, const ViewChooser& chooser, int64_t max_pixels, Image& into);

}  // namespace trainer
