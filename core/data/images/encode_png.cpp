// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/encode_png.h"

#include <fmt/core.h>
#include <png.h>

#include <new>

#include "core/base/error.h"

namespace trainer {
namespace {

/// Pixels as libpng's simplified interface takes them; it reports errors by its result.
std::vector<uint8_t> encode(int64_t height, int64_t width, png_uint_32 format, const void* pixels,
                            std::span<const Colour> palette) {
  png_image head{};
  head.version = PNG_IMAGE_VERSION;
  head.height = static_cast<png_uint_32>(height);
  head.width = static_cast<png_uint_32>(width);
  head.format = format;
  head.colormap_entries = static_cast<png_uint_32>(palette.size());
  std::vector<uint8_t> bytes(static_cast<size_t>(PNG_IMAGE_PNG_SIZE_MAX(head)));
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&head, bytes.data(), &size, 0, pixels, 0, palette.data()) == 0)
    throw Error(ExitCode::internal, fmt::format("a PNG of {}x{} pixels: {}", width, height, head.message));
  bytes.resize(size);
  return bytes;
}

}  // namespace

std::vector<uint8_t> encode_png(const Image& image) {
  const size_t plane = image.pixels.size() / 3;
  std::vector<uint8_t> pixels(image.pixels.size());
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < plane; ++i) pixels[3 * i + c] = image.pixels[c * plane + i];
  }
  return encode(image.height, image.width, PNG_FORMAT_RGB, pixels.data(), {});
}

std::vector<uint8_t> encode_png(std::span<const uint8_t> places, int64_t height, int64_t width,
                                std::span<const Colour> palette) {
  return encode(height, width, PNG_FORMAT_RGB_COLORMAP, places.data(), palette);
}

}  // namespace trainer
