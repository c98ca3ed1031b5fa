// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_avif.h"

#ifdef TRAINER_AVIF
#include <avif/avif.h>
#include <fmt/core.h>

#include <algorithm>
#include <new>

#include "core/data/images/resample.h"

namespace trainer {
namespace {

/// The compressed image may have more pixels than the container says, to which it is scaled, but not any
/// number.
constexpr int64_t kAvifSpare = 1 << 16;

struct DestroyAvif {
  void operator()(avifDecoder* decoder) const { avifDecoderDestroy(decoder); }
};

void require_avif(avifResult result) {
  switch (result) {
    case AVIF_RESULT_OK:
      return;
    case AVIF_RESULT_OUT_OF_MEMORY:
      throw std::bad_alloc();
    case AVIF_RESULT_TRUNCATED_DATA:
    case AVIF_RESULT_IO_ERROR:
      throw DecodeError("the file ends within the image");
    case AVIF_RESULT_NO_CODEC_AVAILABLE:
      throw DecodeError("an AVIF; this libavif was built without a decoder for it: convert it");
    default:
      throw DecodeError(fmt::format("damaged AVIF data: {}", avifResultToString(result)));
  }
}

/// EXIF's number for a turn by `angle` * 90 degrees to the left, then a mirroring.
int avif_orientation(const avifImage& image) {
  const bool is_mirrored = (image.transformFlags & AVIF_TRANSFORM_IMIR) != 0;
  const int angle = (image.transformFlags & AVIF_TRANSFORM_IROT) != 0 ? image.irot.angle & 3 : 0;
#if AVIF_VERSION_MAJOR < 1
  const bool swaps_sides = image.imir.mode == 1;
#else
  const bool swaps_sides = image.imir.axis == 1;
#endif
  constexpr int kTurned[] = {1, 8, 3, 6}, kSidesSwapped[] = {2, 7, 4, 5}, kEndsSwapped[] = {4, 5, 2, 7};
  if (!is_mirrored) return kTurned[angle];
  return swaps_sides ? kSidesSwapped[angle] : kEndsSwapped[angle];
}

class AvifDecoder final : public ImageDecoder {
 public:
  explicit AvifDecoder(std::span<const uint8_t> file) : file_(file), decoder_(avifDecoderCreate()) {
    if (decoder_ == nullptr) throw std::bad_alloc();
  }

  ImageHeader read_header() override {
    decoder_->ignoreExif = AVIF_TRUE;  // the container says how to turn the image
    decoder_->ignoreXMP = AVIF_TRUE;
    // Ordinary files break these two rules, and pixels do not depend on them.
    decoder_->strictFlags &=
        ~static_cast<avifStrictFlags>(AVIF_STRICT_PIXI_REQUIRED | AVIF_STRICT_CLAP_VALID);
    require_avif(avifDecoderSetIOMemory(decoder_.get(), file_.data(), file_.size()));
    require_avif(avifDecoderParse(decoder_.get()));
    const avifImage& image = *decoder_->image;
    return {image.height, image.width, avif_orientation(image)};
  }

  /// Decodes all pixels into image.spare; then makes the view of them.
  void decode(View view, Image& image) override {
    const int64_t width = decoder_->image->width, height = decoder_->image->height;
    decoder_->imageSizeLimit =
        static_cast<uint32_t>(std::min<int64_t>(width * height + kAvifSpare, AVIF_DEFAULT_IMAGE_SIZE_LIMIT));
    require_avif(avifDecoderNextImage(decoder_.get()));
    if (decoder_->image->width != width || decoder_->image->height != height)
      throw DecodeError("damaged AVIF data: the image has another size than its header");
    image.spare.resize(static_cast<size_t>(4 * width * height));
    avifRGBImage rgb;
    avifRGBImageSetDefaults(&rgb, decoder_->image);
    rgb.depth = 8;
    rgb.format = AVIF_RGB_FORMAT_RGBA;  // with alpha, as the colours may have been multiplied by it
    rgb.pixels = image.spare.data();
    rgb.rowBytes = static_cast<uint32_t>(4 * width);
    require_avif(avifImageYUVToRGB(decoder_->image, &rgb));
    resample({image.spare.data(), 4 * width}, view, image);
  }

 private:
  std::span<const uint8_t> file_;
  std::unique_ptr<avifDecoder, DestroyAvif> decoder_;
};

}  // namespace

bool reads_avif() {
  return true;
}

std::unique_ptr<ImageDecoder> make_avif_decoder(std::span<const uint8_t> file) {
  return std::make_unique<AvifDecoder>(file);
}

}  // namespace trainer

#else

namespace trainer {

bool reads_avif() {
  return false;
}

std::unique_ptr<ImageDecoder> make_avif_decoder(std::span<const uint8_t>) {
  throw DecodeError("an AVIF; this program was built without libavif: convert it");
}

}  // namespace trainer

#endif
