// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace trainer {

/// What a JPEG 2000 file says of its image, from the markers of its codestream (ISO/IEC 15444-1, annex A).
struct Jpeg2000Layout {
  int64_t height = 0, width = 0;
};

/// Reads the headers of the whole codestream without its data, before a library takes memory for them. Throws
/// DecodeError for a file that ends too soon, and for counts of tiles, precincts, layers or components that
/// could need far more memory than the pixels.
Jpeg2000Layout read_jpeg2000_layout(std::span<const uint8_t> file);

/// Whether the file is a bare codestream, without boxes.
bool is_jpeg2000_codestream(std::span<const uint8_t> file);

}  // namespace trainer
