// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/jpeg2000_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/data/images/decode.h"

namespace trainer {
namespace {

constexpr uint32_t kStartMarker = 0xFF4F, kSizeMarker = 0xFF51, kCodingMarker = 0xFF52,
                   kComponentCodingMarker = 0xFF53;
constexpr uint32_t kTilePartMarker = 0xFF90, kDataMarker = 0xFF93, kEndMarker = 0xFFD9;

constexpr int64_t kMostComponents = 4, kMostLevels = 32;
/// OpenJPEG takes about 9 KB for a tile and 1 KB for a precinct. Encoders make tiles of at least 64 x 64
/// pixels, and precincts of 32 x 32, whose sides are halved on each lower level.
constexpr int64_t kLeastTilePixels = 4096, kLeastPrecinctPixels = 128, kFreeTiles = 64, kFreePrecincts = 4096;
/// It keeps a number of 2 bytes for each packet: layers x levels x components x precincts.
constexpr int64_t kMostPackets = int64_t{1} << 26;

[[noreturn]] void fail_at_end_of_jpeg2000() {
  throw DecodeError("the file ends within the image");
}

[[noreturn]] void fail_damaged_jpeg2000() {
  throw DecodeError("damaged JPEG 2000 data: a header is not as long as it says");
}

int64_t jpeg2000_parts(int64_t size, int64_t part) {
  return (size + part - 1) / part;
}

/// Of positive numbers; far above any limit instead of beyond the type's.
int64_t bounded_product(int64_t a, int64_t b) {
  constexpr int64_t kMost = int64_t{1} << 50;
  return a > kMost / b ? kMost : a * b;
}

/// Big-endian numbers.
class Jpeg2000Bytes {
 public:
  explicit Jpeg2000Bytes(std::span<const uint8_t> bytes) : left_(bytes) {}

  int64_t left() const { return static_cast<int64_t>(left_.size()); }
  uint32_t number(size_t bytes) {
    if (bytes > left_.size()) fail_at_end_of_jpeg2000();
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | left_[i];
    left_ = left_.subspan(bytes);
    return value;
  }
  std::span<const uint8_t> take(int64_t bytes) {
    if (bytes < 0) fail_damaged_jpeg2000();
    if (bytes > left()) fail_at_end_of_jpeg2000();
    const std::span<const uint8_t> taken = left_.first(static_cast<size_t>(bytes));
    left_ = left_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const uint8_t> left_;
};

struct Jpeg2000Box {
  uint32_t type = 0;
  std::span<const uint8_t> content;
};

/// A length of 0 means to the end, 1 that the length has 8 bytes and comes after the type.
Jpeg2000Box next_box(Jpeg2000Bytes& bytes) {
  int64_t length = bytes.number(4), head = 8;
  Jpeg2000Box box;
  box.type = bytes.number(4);
  if (length == 1) {
    if (bytes.number(4) != 0) fail_at_end_of_jpeg2000();
    length = bytes.number(4), head = 16;
  }
  box.content = bytes.take(length == 0 ? bytes.left() : length - head);
  return box;
}

constexpr uint32_t box_type(std::string_view name) {
  uint32_t type = 0;
  for (const char c : name) type = type << 8 | static_cast<uint8_t>(c);
  return type;
}

/// Each of a palette's columns becomes a component of the image's size.
void check_palettes(std::span<const uint8_t> header) {
  for (Jpeg2000Bytes bytes(header); bytes.left() > 0;) {
    const Jpeg2000Box box = next_box(bytes);
    if (box.type != box_type("pclr")) continue;
    Jpeg2000Bytes palette(box.content);
    palette.number(2);
    if (const uint32_t columns = palette.number(1); columns > kMostComponents)
      throw DecodeError(fmt::format("a JPEG 2000 file with a palette of {} components", columns));
  }
}

std::span<const uint8_t> find_codestream(std::span<const uint8_t> file) {
  if (is_jpeg2000_codestream(file)) return file;
  for (Jpeg2000Bytes bytes(file); bytes.left() > 0;) {
    const Jpeg2000Box box = next_box(bytes);
    if (box.type == box_type("jp2h")) check_palettes(box.content);
    if (box.type == box_type("jp2c")) return box.content;
  }
  fail_at_end_of_jpeg2000();
}

class LayoutReader {
 public:
  explicit LayoutReader(std::span<const uint8_t> codestream) : bytes_(codestream) {}

  Jpeg2000Layout read() {
    if (bytes_.number(2) != kStartMarker || bytes_.number(2) != kSizeMarker)
      throw DecodeError("damaged JPEG 2000 data: it does not begin with the image's size");
    Jpeg2000Bytes size = segment();
    read_size(size);
    if (layout_.height >= 1 && layout_.width >= 1) {
      read_markers(kTilePartMarker);
      read_tile_parts();
      check_packets();
    }
    return layout_;
  }

 private:
  Jpeg2000Bytes segment() { return Jpeg2000Bytes(bytes_.take(int64_t{bytes_.number(2)} - 2)); }

  void read_size(Jpeg2000Bytes& size) {
    size.number(2);
    std::array<int64_t, 8> numbers{};
    for (int64_t& number : numbers) number = size.number(4);
    const auto [right, bottom, left, top, tile_width, tile_height, tile_left, tile_top] = numbers;
    components_ = size.number(2);
    if (components_ < 1 || components_ > kMostComponents)
      throw DecodeError(fmt::format("a JPEG 2000 file of {} components; 1 to 4 are read", components_));
    layout_ = {bottom - top, right - left};
    if (layout_.height < 1 || layout_.width < 1) return;
    if (tile_width < 1 || tile_height < 1 || tile_left > left || tile_top > top) fail_damaged_jpeg2000();
    tile_width_ = std::min(tile_width, layout_.width), tile_height_ = std::min(tile_height, layout_.height);
    const int64_t tiles =
        jpeg2000_parts(right - tile_left, tile_width) * jpeg2000_parts(bottom - tile_top, tile_height);
    if (tiles > kFreeTiles + area() / kLeastTilePixels)
      throw DecodeError(fmt::format("a JPEG 2000 file of {} tiles, too many for its size", tiles));
  }

  int64_t area() const { return bounded_product(layout_.height, layout_.width); }

  /// The segments up to the marker that ends them.
  void read_markers(uint32_t last) {
    for (uint32_t marker = bytes_.number(2); marker != last; marker = bytes_.number(2)) {
      if (marker < 0xFF00 || marker == kEndMarker || marker == kDataMarker || marker == kTilePartMarker)
        fail_damaged_jpeg2000();
      Jpeg2000Bytes content = segment();
      if (marker == kCodingMarker) {
        const bool has_precincts = (content.number(1) & 1) != 0;
        content.number(1);
        layers_ = std::max<int64_t>(layers_, content.number(2));
        content.number(1);
        read_coding(content, has_precincts);
      } else if (marker == kComponentCodingMarker) {
        content.number(1);
        read_coding(content, (content.number(1) & 1) != 0);
      }
    }
  }

  /// Levels, code-blocks and precincts of a tile.
  void read_coding(Jpeg2000Bytes& content, bool has_precincts) {
    const int64_t levels = content.number(1);
    if (levels > kMostLevels) fail_damaged_jpeg2000();
    levels_ = std::max(levels_, levels);
    content.number(4);
    int64_t all = 0;
    for (int64_t level = levels; level >= 0; --level) {
      const uint32_t exponents = has_precincts ? content.number(1) : 0xFF;
      const int64_t across = (tile_width_ >> level >> (exponents & 15)) + 2;
      const int64_t down = (tile_height_ >> level >> (exponents >> 4)) + 2;
      const int64_t precincts = bounded_product(across, down);
      most_precincts_ = std::max(most_precincts_, precincts);
      all += precincts;
    }
    if (all > kFreePrecincts + area() / kLeastPrecinctPixels)
      throw DecodeError(
          fmt::format("a JPEG 2000 file with tiles of {} precincts, too many for its size", all));
  }

  /// Tile-parts follow each other; the length of one counts from its marker, and 0 means to the end.
  void read_tile_parts() {
    for (uint32_t marker = kTilePartMarker; marker != kEndMarker; marker = bytes_.number(2)) {
      if (marker != kTilePartMarker) fail_damaged_jpeg2000();
      Jpeg2000Bytes start = segment();
      const int64_t after_marker = bytes_.left() + 10;
      start.number(2);
      const int64_t length = start.number(4);
      read_markers(kDataMarker);
      if (length == 0) return require_end(bytes_.take(bytes_.left()));
      bytes_.take(length - 2 - (after_marker - bytes_.left()));
    }
  }

  /// No data contains the marker of the end.
  static void require_end(std::span<const uint8_t> data) {
    constexpr std::array<uint8_t, 2> kMarker = {0xFF, 0xD9};
    if (std::find_end(data.begin(), data.end(), kMarker.begin(), kMarker.end()) == data.end())
      fail_at_end_of_jpeg2000();
  }

  /// A packet takes a byte or more, and each component has one in each layer. The decoder looks for all of
  /// them, even past the end of the file.
  void check_packets() const {
    if (layers_ * components_ > file_bytes_)
      throw DecodeError(
          fmt::format("damaged JPEG 2000 data: {} layers do not fit into {} bytes", layers_, file_bytes_));
    const int64_t each = layers_ * (levels_ + 1) * components_;
    if (each > 0 && most_precincts_ > kMostPackets / each)
      throw DecodeError(
          fmt::format("a JPEG 2000 file of {} layers and {} precincts, too many", layers_, most_precincts_));
  }

  Jpeg2000Bytes bytes_;
  int64_t file_bytes_ = bytes_.left();
  Jpeg2000Layout layout_;
  int64_t components_ = 0, tile_width_ = 0, tile_height_ = 0;
  int64_t layers_ = 0, levels_ = 0, most_precincts_ = 0;
};

}  // namespace

bool is_jpeg2000_codestream(std::span<const uint8_t> file) {
  return Jpeg2000Bytes(file).left() >= 4 &&
         Jpeg2000Bytes(file).number(4) == (kStartMarker << 16 | kSizeMarker);
}

Jpeg2000Layout read_jpeg2000_layout(std::span<const uint8_t> file) {
  return LayoutReader(find_codestream(file)).read();
}

}  // namespace trainer
