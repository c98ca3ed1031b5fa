// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_webp.h"

#include <webp/decode.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "core/data/images/orientation.h"
#include "core/data/images/resample.h"

namespace trainer {
namespace {

/// Colours are stored for 2x2 pixels and smoothed between them, so that pixels at a window's edge need some
/// beyond it. Even, as libwebp begins windows at even places.
constexpr int64_t kWebpColourReach = 2;
constexpr size_t kRiffHead = 12, kChunkHead = 8;
constexpr std::array<uint8_t, 6> kWebpExifName = {'E', 'x', 'i', 'f', 0, 0};

size_t little_endian(const uint8_t* bytes) {
  return bytes[0] | size_t{bytes[1]} << 8 | size_t{bytes[2]} << 16 | size_t{bytes[3]} << 24;
}

void require(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OK:
      return;
    case VP8_STATUS_OUT_OF_MEMORY:
      throw std::bad_alloc();
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      throw DecodeError("the file ends within the image");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      throw DecodeError("a WebP with a feature that libwebp does not support");
    default:
      throw DecodeError("damaged WebP data");
  }
}

class WebpDecoder final : public ImageDecoder {
 public:
  explicit WebpDecoder(std::span<const uint8_t> file) : file_(file) {
    if (WebPInitDecoderConfig(&config_) == 0)
      throw DecodeError("this libwebp is another than was built with");
  }
  ~WebpDecoder() override = default;

  ImageHeader read_header() override {
    if (file_.size() < kRiffHead || little_endian(file_.data() + 4) > file_.size() - kChunkHead) {
      throw DecodeError("the file ends within the image");
    }
    require(WebPGetFeatures(file_.data(), file_.size(), &config_.input));
    if (config_.input.has_animation != 0)
      throw DecodeError("an animated WebP; only still ones are read: convert it");
    return {config_.input.height, config_.input.width, orientation()};
  }

  /// Decodes the part of the image that the view needs into image.spare; then makes the view of it.
  void decode(View view, Image& image) override {
    const PixelRange rows = with_reach(pixels_read(view.y), config_.input.height);
    const PixelRange columns = with_reach(pixels_read(view.x), config_.input.width);
    const int64_t height = rows.end - rows.first, stride = 4 * (columns.end - columns.first);
    image.spare.resize(static_cast<size_t>(stride * height));
    WebPDecoderOptions& options = config_.options;
    options.use_cropping = 1;
    options.crop_left = static_cast<int>(columns.first), options.crop_top = static_cast<int>(rows.first);
    options.crop_width = static_cast<int>(columns.end - columns.first);
    options.crop_height = static_cast<int>(height);
    config_.output.colorspace = MODE_RGBA;
    config_.output.is_external_memory = 1;
    config_.output.u.RGBA = {image.spare.data(), static_cast<int>(stride), image.spare.size()};
    require(WebPDecode(file_.data(), file_.size(), &config_));
    view = {view.y.shifted(rows.first), view.x.shifted(columns.first)};
    resample({image.spare.data(), stride}, view, image);
  }

 private:
  static PixelRange with_reach(const PixelRange& range, int64_t size) {
    const int64_t first = std::max<int64_t>(0, range.first - kWebpColourReach);
    return {first - first % 2, std::min(size, range.end + kWebpColourReach)};
  }

  /// Of the EXIF chunk, which some programs start with a JPEG segment's prefix.
  int orientation() const {
    for (size_t at = kRiffHead; at + kChunkHead <= file_.size();) {
      const uint8_t* chunk = file_.data() + at;
      const size_t length = little_endian(chunk + 4);
      if (length > file_.size() - at - kChunkHead) return 1;
      if (std::memcmp(chunk, "EXIF", 4) == 0) {
        std::span<const uint8_t> exif(chunk + kChunkHead, length);
        const bool is_named = exif.size() >= kWebpExifName.size() &&
                              std::equal(kWebpExifName.begin(), kWebpExifName.end(), exif.begin());
        return exif_orientation(is_named ? exif.subspan(kWebpExifName.size()) : exif);
      }
      at += kChunkHead + length + length % 2;
    }
    return 1;
  }

  std::span<const uint8_t> file_;
  WebPDecoderConfig config_{};
};

}  // namespace

std::unique_ptr<ImageDecoder> make_webp_decoder(std::span<const uint8_t> file) {
  return std::make_unique<WebpDecoder>(file);
}

}  // namespace trainer
