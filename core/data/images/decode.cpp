// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/data/images/decode_jpeg.h"
#include "core/data/images/decode_png.h"

namespace trainer {
namespace {

constexpr std::array<uint8_t, 3> kJpegMagic = {0xFF, 0xD8, 0xFF};
constexpr std::array<uint8_t, 8> kPngMagic = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

template <size_t kCount>
bool starts_with(std::span<const uint8_t> file, const std::array<uint8_t, kCount>& magic) {
  return file.size() >= kCount && std::equal(magic.begin(), magic.end(), file.begin());
}

enum class Kind { jpeg, png };

Kind kind_of(std::span<const uint8_t> file) {
  if (starts_with(file, kJpegMagic)) return Kind::jpeg;
  if (starts_with(file, kPngMagic)) return Kind::png;
  throw DecodeError(file.empty() ? "the file is empty" : "neither JPEG nor PNG by its first bytes");
}

}  // namespace

PictureHeader read_picture_header(std::span<const uint8_t> file) {
  return kind_of(file) == Kind::jpeg ? read_jpeg_header(file) : read_png_header(file);
}

void decode_picture(std::span<const uint8_t> file, const ViewChooser& chooser, int64_t max_pixels,
                    Image& into) {
  if (kind_of(file) == Kind::jpeg) {
    decode_jpeg(file, chooser, max_pixels, into);
  } else {
    decode_png(file, chooser, max_pixels, into);
  }
}

void check_pixels(const PictureHeader& header, int64_t max_pixels) {
  if (header.height < 1 || header.width < 1) {
    throw DecodeError(fmt::format("the header says {} x {} pixels", header.width, header.height));
  }
  if (header.height > max_pixels / header.width) {
    throw DecodeError(fmt::format("the header says {} x {} pixels, more than data.max_pixels {}",
                                  header.width, header.height, max_pixels));
  }
}

}  // namespace trainer
