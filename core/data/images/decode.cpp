// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/data/images/decode_avif.h"
#include "core/data/images/decode_bmp.h"
#include "core/data/images/decode_gif.h"
#include "core/data/images/decode_jpeg.h"
#include "core/data/images/decode_jpeg2000.h"
#include "core/data/images/decode_png.h"
#include "core/data/images/decode_tiff.h"
#include "core/data/images/decode_webp.h"
#include "core/data/images/jpeg2000_layout.h"
#include "core/data/images/orientation.h"
#include "core/data/images/resample.h"
#include "core/data/skipped_files.h"

namespace trainer {
namespace {

constexpr std::array<uint8_t, 3> kJpegMagic = {0xFF, 0xD8, 0xFF};
constexpr std::array<uint8_t, 4> kRiffMagic = {'R', 'I', 'F', 'F'};
constexpr std::array<uint8_t, 4> kWebpMagic = {'W', 'E', 'B', 'P'};  // after RIFF and the length
constexpr std::array<uint8_t, 2> kBmpMagic = {'B', 'M'};
constexpr std::array<uint8_t, 4> kGifMagic = {'G', 'I', 'F', '8'};
constexpr const char* kImageKinds = "JPEG, PNG, WebP, BMP, GIF, TIFF, AVIF nor JPEG 2000";
// Little-endian and big-endian; 43 instead of 42 is a BigTIFF.
constexpr std::array<std::array<uint8_t, 4>, 4> kTiffMagics = {
    {{'I', 'I', 42, 0}, {'M', 'M', 0, 42}, {'I', 'I', 43, 0}, {'M', 'M', 0, 43}}};
constexpr std::array<uint8_t, 12> kJp2Magic = {0, 0, 0, 12, 'j', 'P', ' ', ' ', '\r', '\n', 0x87, '\n'};
constexpr std::array<uint8_t, 4> kFileTypeBox = {'f', 't', 'y', 'p'};
constexpr std::array<std::array<uint8_t, 4>, 4> kAvifBrands = {
    {{'a', 'v', 'i', 'f'}, {'a', 'v', 'i', 's'}, {'m', 'i', 'f', '1'}, {'m', 's', 'f', '1'}}};
constexpr std::array<std::array<uint8_t, 4>, 2> kHeicBrands = {{{'h', 'e', 'i', 'c'}, {'h', 'e', 'i', 'x'}}};
constexpr std::array<uint8_t, 4> kDicomMagic = {'D', 'I', 'C', 'M'};
constexpr size_t kWebpMagicAt = 8, kFileTypeAt = 4, kBrandAt = 8, kDicomMagicAt = 128;

template <size_t kCount>
bool starts_with(std::span<const uint8_t> file, const std::array<uint8_t, kCount>& magic) {
  return file.size() >= kCount && std::equal(magic.begin(), magic.end(), file.begin());
}

bool is_webp(std::span<const uint8_t> file) {
  return file.size() >= kWebpMagicAt && starts_with(file, kRiffMagic) &&
         starts_with(file.subspan(kWebpMagicAt), kWebpMagic);
}

bool is_tiff(std::span<const uint8_t> file) {
  return std::ranges::any_of(kTiffMagics, [file](const auto& magic) { return starts_with(file, magic); });
}

/// By the first of the kinds that the file says it is of.
bool has_brand(std::span<const uint8_t> file, std::span<const std::array<uint8_t, 4>> brands) {
  if (file.size() < kBrandAt || !starts_with(file.subspan(kFileTypeAt), kFileTypeBox)) return false;
  const std::span<const uint8_t> brand = file.subspan(kBrandAt);
  return std::ranges::any_of(brands, [brand](const auto& name) { return starts_with(brand, name); });
}

bool is_dicom(std::span<const uint8_t> file) {
  return file.size() >= kDicomMagicAt && starts_with(file.subspan(kDicomMagicAt), kDicomMagic);
}

std::unique_ptr<ImageDecoder> make_decoder(std::span<const uint8_t> file) {
  if (starts_with(file, kJpegMagic)) return make_jpeg_decoder(file);
  if (is_png(file)) return make_png_decoder(file);
  if (is_webp(file)) return make_webp_decoder(file);
  if (starts_with(file, kBmpMagic)) return make_bmp_decoder(file);
  if (starts_with(file, kGifMagic)) return make_gif_decoder(file);
  if (is_tiff(file)) return make_tiff_decoder(file);
  if (has_brand(file, kAvifBrands)) return make_avif_decoder(file);
  if (starts_with(file, kJp2Magic) || is_jpeg2000_codestream(file)) return make_jpeg2000_decoder(file);
  if (has_brand(file, kHeicBrands)) throw DecodeError(fmt::format("a HEIC file; {}", kConvertHeic));
  if (is_dicom(file)) throw DecodeError(fmt::format("a DICOM file; {}", kConvertDicom));
  throw DecodeError(file.empty() ? std::string("the file is empty")
                                 : fmt::format("neither {} by its first bytes", kImageKinds));
}

/// The header's dimensions are checked before memory is taken.
void check_pixels(const ImageHeader& header, int64_t max_pixels) {
  if (header.height < 1 || header.width < 1) {
    throw DecodeError(fmt::format("the header says {} x {} pixels", header.width, header.height));
  }
  if (header.height > max_pixels / header.width) {
    throw DecodeError(fmt::format("the header says {} x {} pixels, more than data.max_pixels {}",
                                  header.width, header.height, max_pixels));
  }
}

}  // namespace

std::string image_file_ending(std::span<const uint8_t> file) {
  if (starts_with(file, kJpegMagic)) return "jpg";
  if (is_png(file)) return "png";
  if (is_webp(file)) return "webp";
  if (starts_with(file, kBmpMagic)) return "bmp";
  if (starts_with(file, kGifMagic)) return "gif";
  if (is_tiff(file)) return "tif";
  if (has_brand(file, kAvifBrands)) return "avif";
  if (starts_with(file, kJp2Magic)) return "jp2";
  return is_jpeg2000_codestream(file) ? "j2k" : "";
}

void decode_image(std::span<const uint8_t> file, const ViewChooser& chooser, int64_t max_pixels,
                  Image& into) {
  decode_image(*make_decoder(file), chooser, max_pixels, into);
}

void decode_image(ImageDecoder& decoder, const ViewChooser& chooser, int64_t max_pixels, Image& into) {
  const ImageHeader header = decoder.read_header();
  check_pixels(header, max_pixels);
  const View view = stored_view(header, chooser);
  const PixelWindow* window = chooser.pixel_window();
  if (window == nullptr || decoder.take_window(*window)) {
    decoder.decode(view, into);
  } else {
    decoder.decode(View::whole(header.height, header.width), into);
    window->apply(into);
    into.mask.clear();  // an earlier image's
    resample(into, view);
  }
  turn_upright(into, header.orientation);
}

}  // namespace trainer
