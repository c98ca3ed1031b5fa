// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_bmp.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/data/images/resample.h"

namespace trainer {
namespace {

constexpr uint64_t kFileHead = 14, kCoreHead = 12, kInfoHead = 40, kHeadWithMasks = 52;
constexpr std::array<uint64_t, 7> kHeads = {kCoreHead, kInfoHead, kHeadWithMasks, 56, 64, 108, 124};
constexpr uint64_t kUncompressed = 0, kBitFields = 3;

std::string compression_name(uint64_t number) {
  constexpr std::array<const char*, 6> kNames = {"none", "RLE8", "RLE4", "bit fields", "JPEG", "PNG"};
  return number < kNames.size() ? kNames[number] : fmt::format("number {}", number);
}

/// Where a pixel's red, green and blue are among its bits, lowest byte first.
struct ColourShifts {
  int red = 16, green = 8, blue = 0;
};

class BmpDecoder final : public ImageDecoder {
 public:
  explicit BmpDecoder(std::span<const uint8_t> file) : file_(file) {}

  ImageHeader read_header() override {
    head_bytes_ = number(kFileHead, 4);
    if (std::find(kHeads.begin(), kHeads.end(), head_bytes_) == kHeads.end())
      throw DecodeError(fmt::format("a BMP with a header of {} bytes, which no version has", head_bytes_));
    if (head_bytes_ == kCoreHead) {
      read_sizes(2);
    } else {
      read_sizes(4);
      compression_ = number(30, 4);
      colours_ = number(46, 4);
    }
    check_kind();
    read_layout();
    return {height_, width_, 1};
  }

  /// Unpacks the rows that the view needs into image.spare; then makes the view of them.
  void decode(View view, Image& image) override {
    const uint64_t row_bytes = (static_cast<uint64_t>(width_) * bits_ + 7) / 8;
    const uint64_t stride = (row_bytes + 3) / 4 * 4;
    const uint64_t needed = stride * static_cast<uint64_t>(height_ - 1) + row_bytes;
    if (pixels_at_ > file_.size() || needed > file_.size() - pixels_at_)
      throw DecodeError("the file ends within the image");
    const PixelRange rows = pixels_read(view.y);
    image.spare.resize(static_cast<size_t>(4 * width_ * (rows.end - rows.first)));
    uint8_t* to = image.spare.data();
    for (int64_t y = rows.first; y < rows.end; ++y, to += 4 * width_) {
      const int64_t stored = is_downwards_ ? y : height_ - 1 - y;
      const uint8_t* from = file_.data() + pixels_at_ + stride * static_cast<uint64_t>(stored);
      if (bits_ <= 8) {
        unpack_indices(from, to);
      } else {
        unpack_colours(from, to);
      }
    }
    view.y = view.y.shifted(rows.first);
    resample({image.spare.data(), 4 * width_}, view, image);
  }

 private:
  uint64_t number(uint64_t at, uint64_t bytes) const {
    if (at + bytes > file_.size()) throw DecodeError("the file ends within its header");
    uint64_t value = 0;
    for (uint64_t i = 0; i < bytes; ++i) value |= uint64_t{file_[at + i]} << (8 * i);
    return value;
  }

  /// Numbers of 2 bytes have no sign; rows of a negative height go downwards.
  void read_sizes(uint64_t bytes) {
    const uint64_t at = kFileHead + 4, width = number(at, bytes), height = number(at + bytes, bytes);
    width_ = bytes == 2 ? static_cast<int64_t>(width) : static_cast<int32_t>(static_cast<uint32_t>(width));
    height_ = bytes == 2 ? static_cast<int64_t>(height) : static_cast<int32_t>(static_cast<uint32_t>(height));
    is_downwards_ = height_ < 0;
    height_ = is_downwards_ ? -height_ : height_;
    bits_ = number(at + 2 * bytes + 2, 2);
  }

  void check_kind() const {
    constexpr const char* kRead = "only uncompressed ones of 1, 4, 8, 24 or 32 bits are read: convert it";
    if (compression_ != kUncompressed && (compression_ != kBitFields || bits_ < 16))
      throw DecodeError(fmt::format("a BMP with compression {}; {}", compression_name(compression_), kRead));
    constexpr std::array<uint64_t, 5> kBits = {1, 4, 8, 24, 32};
    if (std::find(kBits.begin(), kBits.end(), bits_) == kBits.end())
      throw DecodeError(fmt::format("a BMP of {} bits a pixel; {}", bits_, kRead));
  }

  void read_layout() {
    uint64_t after = kFileHead + head_bytes_;
    const uint64_t entry = head_bytes_ == kCoreHead ? 3 : 4;
    if (bits_ <= 8) {
      const uint64_t most = uint64_t{1} << bits_;
      const uint64_t stored = colours_ == 0 ? most : colours_;
      colours_ = std::min(stored, most);
      palette_at_ = after, entry_bytes_ = entry;
      number(after + (colours_ - 1) * entry, entry);
      after += stored * entry;
    } else if (compression_ == kBitFields) {
      read_masks();
      if (head_bytes_ < kHeadWithMasks) after += 12;
    }
    pixels_at_ = number(10, 4);
    // Some programs do not count the palette.
    const bool is_miscounted = pixels_at_ == 0 || (bits_ <= 8 && pixels_at_ == kFileHead + head_bytes_);
    if (is_miscounted) pixels_at_ = after;
  }

  /// The masks are at a longer header's position, even after a short header.
  void read_masks() {
    const uint64_t at = kFileHead + kInfoHead;
    const uint64_t red = number(at, 4), green = number(at + 4, 4), blue = number(at + 8, 4);
    if ((red | green | blue) == 0 && bits_ == 32) return;
    shifts_ = {byte_of(red), byte_of(green), byte_of(blue)};
  }

  int byte_of(uint64_t mask) const {
    for (int shift = 0; shift < static_cast<int>(bits_); shift += 8) {
      if (mask == uint64_t{0xFF} << shift) return shift;
    }
    throw DecodeError(
        fmt::format("a BMP with the bit field {:08x}; only whole bytes are read: convert it", mask));
  }

  void unpack_indices(const uint8_t* from, uint8_t* to) const {
    const auto bits = static_cast<int64_t>(bits_), mask = (int64_t{1} << bits) - 1;
    for (int64_t x = 0; x < width_; ++x, to += 4) {
      const int64_t bit = x * bits, index = from[bit / 8] >> (8 - bits - bit % 8) & mask;
      if (static_cast<uint64_t>(index) >= colours_)
        throw DecodeError(fmt::format("a pixel of colour {} of a palette of {}", index, colours_));
      const uint8_t* colour = file_.data() + palette_at_ + static_cast<uint64_t>(index) * entry_bytes_;
      to[0] = colour[2], to[1] = colour[1], to[2] = colour[0], to[3] = 0xFF;
    }
  }

  void unpack_colours(const uint8_t* from, uint8_t* to) const {
    const auto bytes = static_cast<int64_t>(bits_ / 8);
    const int red = shifts_.red / 8, green = shifts_.green / 8, blue = shifts_.blue / 8;
    for (int64_t x = 0; x < width_; ++x, from += bytes, to += 4)
      to[0] = from[red], to[1] = from[green], to[2] = from[blue], to[3] = 0xFF;
  }

  std::span<const uint8_t> file_;
  uint64_t head_bytes_ = 0, bits_ = 0, compression_ = kUncompressed;
  uint64_t colours_ = 0, palette_at_ = 0, entry_bytes_ = 4, pixels_at_ = 0;
  int64_t height_ = 0, width_ = 0;
  bool is_downwards_ = false;
  ColourShifts shifts_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_bmp_decoder(std::span<const uint8_t> file) {
  return std::make_unique<BmpDecoder>(file);
}

}  // namespace trainer
