// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/encode_png.h"

#include <fmt/core.h>
#include <png.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/base/error.h"

namespace trainer {
namespace {

/// (C, H, W) to (H, W, C).
std::vector<uint8_t> interleaved(std::span<const uint8_t> pixels, int64_t channels) {
  const size_t planes = static_cast<size_t>(channels), area = pixels.size() / planes;
  std::vector<uint8_t> rows(pixels.size());
  for (size_t i = 0; i < area; ++i)
    for (size_t c = 0; c < planes; ++c) rows[i * planes + c] = pixels[c * area + i];
  return rows;
}

/// The mean of the window [begin, end) of each axis.
uint8_t mean_of(const uint8_t* plane, int64_t width, int64_t top, int64_t bottom, int64_t left,
                int64_t right) {
  int64_t sum = 0;
  for (int64_t y = top; y < bottom; ++y)
    for (int64_t x = left; x < right; ++x) sum += plane[y * width + x];
  const int64_t count = (bottom - top) * (right - left);
  return static_cast<uint8_t>((sum + count / 2) / count);
}

/// Throws std::invalid_argument for a shape that these pixels do not have, or a PNG cannot.
void check_shape(std::span<const uint8_t> pixels, const Shape& shape) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const bool fits = shape.size() == 3 && (shape[0] == 1 || shape[0] == 3) && shape[1] > 0 && shape[2] > 0 &&
                    shape[1] < kMost && shape[2] < kMost &&
                    numel(shape) == static_cast<int64_t>(pixels.size());
  if (!fits) throw std::invalid_argument("a PNG has 1 or 3 channels, got " + to_string(shape));
}

/// Rows of pixels as libpng's simplified interface takes them; it reports errors by its result.
std::string encode(const uint8_t* rows, const Shape& shape, png_uint_32 format,
                   std::span<const Colour> palette) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(shape[1]);
  image.width = static_cast<png_uint_32>(shape[2]);
  image.format = format;
  image.colormap_entries = static_cast<png_uint_32>(palette.size());
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = file.size();
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, rows, 0, palette.data()) == 0)
    throw Error(ExitCode::internal, fmt::format("a PNG of shape {}: {}", to_string(shape), image.message));
  file.resize(bytes);
  return file;
}

}  // namespace

std::string encode_png(std::span<const uint8_t> pixels, const Shape& shape) {
  check_shape(pixels, shape);
  if (shape[0] == 1) return encode(pixels.data(), shape, PNG_FORMAT_GRAY, {});
  return encode(interleaved(pixels, shape[0]).data(), shape, PNG_FORMAT_RGB, {});
}

std::string encode_png(std::span<const uint8_t> places, const Shape& shape, std::span<const Colour> palette) {
  check_shape(places, shape);
  return encode(places.data(), shape, PNG_FORMAT_RGB_COLORMAP, palette);
}

std::vector<uint8_t> make_thumbnail(std::span<const uint8_t> pixels, Shape& shape, int64_t most) {
  const Shape from = shape;
  const int64_t longest = std::max(from[1], from[2]);
  if (longest <= most) return {pixels.begin(), pixels.end()};
  shape[1] = std::max<int64_t>(1, from[1] * most / longest);
  shape[2] = std::max<int64_t>(1, from[2] * most / longest);
  std::vector<uint8_t> small;
  small.reserve(static_cast<size_t>(numel(shape)));
  for (int64_t c = 0; c < shape[0]; ++c) {
    const uint8_t* plane = pixels.data() + c * from[1] * from[2];
    for (int64_t y = 0; y < shape[1]; ++y)
      for (int64_t x = 0; x < shape[2]; ++x)
        small.push_back(mean_of(plane, from[2], y * from[1] / shape[1], (y + 1) * from[1] / shape[1],
                                x * from[2] / shape[2], (x + 1) * from[2] / shape[2]));
  }
  return small;
}

}  // namespace trainer
