// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/orientation.h"

#include <algorithm>
#include <utility>

namespace trainer {
namespace {

/// Numbers in a TIFF structure, which declares its own byte order. Zero outside.
class TiffReader {
 public:
  explicit TiffReader(std::span<const uint8_t> bytes)
      : bytes_(bytes), little_(bytes.size() >= 2 && bytes[0] == 'I' && bytes[1] == 'I') {}

  uint32_t number(size_t offset, size_t width) const {
    if (offset > bytes_.size() || bytes_.size() - offset < width) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < width; ++i) {
      value = value << 8 | bytes_[offset + (little_ ? width - 1 - i : i)];
    }
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool little_;
};

// The eight orientations are combinations of three steps, in this order: mirror the stored image left to
// right, mirror it top to bottom, then turn rows into columns.
bool mirrors_columns(int orientation) {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}
bool mirrors_rows(int orientation) {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

/// dst (width, height) = src (height, width) with rows as columns. In tiles, which stay in the cache.
void transpose(const uint8_t* src, uint8_t* dst, int64_t height, int64_t width) {
  constexpr int64_t kTile = 16;
  for (int64_t top = 0; top < height; top += kTile) {
    for (int64_t left = 0; left < width; left += kTile) {
      for (int64_t y = top; y < std::min(height, top + kTile); ++y) {
        for (int64_t x = left; x < std::min(width, left + kTile); ++x)
          dst[x * height + y] = src[y * width + x];
      }
    }
  }
}

}  // namespace

int exif_orientation(std::span<const uint8_t> tiff) {
  constexpr uint32_t kOrientationTag = 0x0112, kEntryBytes = 12, kShort = 3;
  const TiffReader reader(tiff);
  const bool is_tiff = reader.number(2, 2) == 42;
  const size_t directory = reader.number(4, 4);
  const uint32_t entries = is_tiff ? reader.number(directory, 2) : 0;
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + size_t{i} * kEntryBytes;
    if (reader.number(entry, 2) != kOrientationTag || reader.number(entry + 2, 2) != kShort) continue;
    const uint32_t value = reader.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

View stored_view(const ImageHeader& header, const ViewChooser& chooser) {
  const bool transposed = header.is_transposed();
  View view =
      transposed ? chooser.choose(header.width, header.height) : chooser.choose(header.height, header.width);
  if (transposed) std::swap(view.y, view.x);
  if (mirrors_columns(header.orientation)) view.x = view.x.mirrored(header.width);
  if (mirrors_rows(header.orientation)) view.y = view.y.mirrored(header.height);
  return view;
}

void turn_upright(Image& image, int orientation) {
  if (mirrors_columns(orientation)) {
    uint8_t* row = image.pixels.data();
    for (int64_t y = 0; y < image.channels * image.height; ++y, row += image.width) {
      std::reverse(row, row + image.width);
    }
  }
  const int64_t plane = image.height * image.width;
  if (mirrors_rows(orientation)) {
    for (int64_t c = 0; c < image.channels; ++c) {
      uint8_t* pixels = image.pixels.data() + c * plane;
      for (int64_t y = 0; y < image.height / 2; ++y) {
        std::swap_ranges(pixels + y * image.width, pixels + (y + 1) * image.width,
                         pixels + (image.height - 1 - y) * image.width);
      }
    }
  }
  if (orientation < 5) return;
  image.spare.resize(image.pixels.size());
  for (int64_t c = 0; c < image.channels; ++c) {
    transpose(image.pixels.data() + c * plane, image.spare.data() + c * plane, image.height, image.width);
  }
  std::swap(image.pixels, image.spare);
  std::swap(image.height, image.width);
}

}  // namespace trainer
