// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_tiff.h"

#ifdef TRAINER_TIFF
#include <fmt/core.h>
#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "core/data/images/resample.h"
#include "core/data/images/tiff_pixels.h"

namespace trainer {
namespace {

/// The compressions that are read: a file of another kind could make its codec take any amount of memory.
constexpr std::array<uint16_t, 10> kTiffCompressions = {
    COMPRESSION_NONE, COMPRESSION_CCITTRLE,      COMPRESSION_CCITTFAX3, COMPRESSION_CCITTFAX4,
    COMPRESSION_LZW,  COMPRESSION_ADOBE_DEFLATE, COMPRESSION_DEFLATE,   COMPRESSION_PACKBITS,
    COMPRESSION_JPEG, COMPRESSION_ZSTD};
constexpr uint16_t kMostTiffSamples = 16;
/// Tiles may be larger than a small image, but not by any amount.
constexpr int64_t kLargestTile = 2048;
/// libtiff's own memory for one thing: tables are a few times as large as they are in the file.
constexpr size_t kTiffMemory = size_t{64} << 20, kTiffMemoryFactor = 8;

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
struct FreeTiffOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

class TiffDecoder final : public ImageDecoder {
 public:
  explicit TiffDecoder(std::span<const uint8_t> file) : file_(file) {}

  ImageHeader read_header() override {
    open();
    uint32_t width = 0, height = 0;
    TIFFGetField(tiff_.get(), TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(tiff_.get(), TIFFTAG_IMAGELENGTH, &height);
    width_ = width, height_ = height;
    read_kind();
    read_layout();
    const uint16_t orientation = number(TIFFTAG_ORIENTATION);
    return {height_, width_, orientation >= 1 && orientation <= 8 ? orientation : 1};
  }

  bool take_window(const PixelWindow& window) override {
    const bool has_indirect_colours = pixels_.colours == TiffColours::palette ||
                                      pixels_.colours == TiffColours::cmyk || pixels_.has_multiplied_alpha;
    if (!has_indirect_colours) pixels_.window = window;
    return !has_indirect_colours;
  }

  /// Unpacks the part of the image that the view needs into image.spare; then makes the view of it.
  void decode(View view, Image& image) override {
    if (pixels_.is_signed && !pixels_.window)
      throw DecodeError(
          "a TIFF of signed integers, which need a range: begin data.augment and data.eval_transform with "
          "window");
    require_end();
    rows_ = pixels_read(view.y), columns_ = pixels_read(view.x);
    const int64_t width = columns_.end - columns_.first, count = width * (rows_.end - rows_.first);
    image.spare.resize(static_cast<size_t>(4 * count));
    pixels_.prepare();
    for (int64_t plane = 0; plane < (is_planar_ ? pixels_.used() : 1); ++plane) {
      if (is_tiled_) {
        read_tiles(plane, image.spare.data());
      } else {
        read_strips(plane, image.spare.data());
      }
    }
    pixels_.convert(image.spare.data(), count);
    view = {view.y.shifted(rows_.first), view.x.shifted(columns_.first)};
    resample({image.spare.data(), 4 * width}, view, image);
  }

 private:
  static tmsize_t read(thandle_t handle, void* bytes, tmsize_t count) {
    auto& self = *static_cast<TiffDecoder*>(handle);
    const auto wanted = static_cast<uint64_t>(std::max<tmsize_t>(count, 0));
    const uint64_t at = std::min<uint64_t>(self.at_, self.file_.size());
    const uint64_t taken = std::min(wanted, self.file_.size() - at);
    self.has_ended_ = self.has_ended_ || taken < wanted;
    if (taken > 0) std::memcpy(bytes, self.file_.data() + at, taken);
    self.at_ = at + taken;
    return static_cast<tmsize_t>(taken);
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }
  static toff_t seek(thandle_t handle, toff_t to, int whence) {
    auto& self = *static_cast<TiffDecoder*>(handle);
    const uint64_t from = whence == SEEK_CUR ? self.at_ : whence == SEEK_END ? self.file_.size() : 0;
    return self.at_ = from + to;
  }
  static int close(thandle_t) { return 0; }
  static toff_t size(thandle_t handle) { return static_cast<TiffDecoder*>(handle)->file_.size(); }

  /// libtiff returns success for some kinds of damage that it reports here.
  static int on_error(TIFF*, void* data, const char*, const char* format, va_list values) {
    auto& self = *static_cast<TiffDecoder*>(data);
    if (self.has_failed_) return 1;
    self.has_failed_ = true;
    std::vsnprintf(self.message_.data(), self.message_.size(), format, values);
    return 1;
  }

  /// Those of libjpeg are about the image's data, others about tags that pixels do not depend on.
  static int on_warning(TIFF* tiff, void* data, const char* module, const char* format, va_list values) {
    const bool is_damage = module != nullptr && std::strcmp(module, "JPEGLib") == 0;
    return is_damage ? on_error(tiff, data, module, format, values) : 1;
  }

  void open() {
    const std::unique_ptr<TIFFOpenOptions, FreeTiffOptions> options(TIFFOpenOptionsAlloc());
    if (options == nullptr) throw std::bad_alloc();
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, this);
    const size_t most = kTiffMemory + kTiffMemoryFactor * file_.size();
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(most));
    // m: through the functions, which see the file's end.
    tiff_.reset(TIFFClientOpenExt("TIFF", "rm", this, read, write, seek, close, size, nullptr, nullptr,
                                  options.get()));
    require(tiff_ != nullptr);
  }

  void require(bool is_good) const {
    if (is_good && !has_failed_) return;
    if (has_ended_) throw DecodeError("the file ends within the image");
    throw DecodeError(fmt::format("damaged TIFF data: {}", message_.data()));
  }

  uint16_t number(uint32_t tag) const {
    uint16_t value = 0;
    TIFFGetFieldDefaulted(tiff_.get(), tag, &value);
    return value;
  }

  void read_kind() {
    const uint16_t compression = number(TIFFTAG_COMPRESSION), form = number(TIFFTAG_SAMPLEFORMAT);
    if (std::find(kTiffCompressions.begin(), kTiffCompressions.end(), compression) ==
            kTiffCompressions.end() ||
        TIFFIsCODECConfigured(compression) == 0) {
      const TIFFCodec* codec = TIFFFindCODEC(compression);
      throw DecodeError(fmt::format("a TIFF with compression {}; convert it",
                                    codec != nullptr ? codec->name : fmt::format("number {}", compression)));
    }
    pixels_.bits = number(TIFFTAG_BITSPERSAMPLE);
    samples_ = number(TIFFTAG_SAMPLESPERPIXEL);
    is_planar_ = number(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE && samples_ > 1;
    pixels_.is_signed = form == SAMPLEFORMAT_INT;
    if (form == SAMPLEFORMAT_IEEEFP || form > SAMPLEFORMAT_VOID ||
        (pixels_.is_signed && pixels_.bits != 16)) {
      throw DecodeError(
          fmt::format("a TIFF of {} of {} bits; only integers of up to 16 bits are read: convert it",
                      pixels_.is_signed ? "signed integers" : "other numbers", pixels_.bits));
    }
    read_colours(compression == COMPRESSION_JPEG);
  }

  void read_colours(bool is_jpeg) {
    uint16_t photometric = PHOTOMETRIC_MINISBLACK;
    TIFFGetField(tiff_.get(), TIFFTAG_PHOTOMETRIC, &photometric);
    if (photometric == PHOTOMETRIC_YCBCR && is_jpeg && !is_planar_) {
      TIFFSetField(tiff_.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
      photometric = samples_ == 1 ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_RGB;
    }
    int64_t colours = 1;
    switch (photometric) {
      case PHOTOMETRIC_MINISWHITE:
        pixels_.colours = TiffColours::white_is_zero;
        break;
      case PHOTOMETRIC_MINISBLACK:
        pixels_.colours = TiffColours::black_is_zero;
        break;
      case PHOTOMETRIC_PALETTE:
        pixels_.colours = TiffColours::palette;
        break;
      case PHOTOMETRIC_RGB:
        pixels_.colours = TiffColours::rgb, colours = 3;
        break;
      case PHOTOMETRIC_SEPARATED:
        pixels_.colours = TiffColours::cmyk, colours = 4;
        break;
      default:
        throw DecodeError(
            fmt::format("a TIFF of photometric interpretation {}; convert it to RGB", photometric));
    }
    check_samples(colours);
    if (pixels_.colours == TiffColours::palette) read_palette();
    read_alpha(colours);
  }

  void check_samples(int64_t colours) const {
    const int bits = pixels_.bits;
    const bool is_small = bits == 1 || bits == 2 || bits == 4,
               is_palette = pixels_.colours == TiffColours::palette;
    const bool is_read = bits == 8 || (is_small && colours == 1) || (bits == 16 && !is_palette);
    if (!is_read || samples_ < colours || samples_ > kMostTiffSamples)
      throw DecodeError(fmt::format("a TIFF of {} samples of {} bits; convert it", samples_, bits));
  }

  /// Pillow takes the high byte of each number, too.
  void read_palette() {
    std::array<uint16_t*, 3> maps{};
    if (TIFFGetField(tiff_.get(), TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]) == 0)
      throw DecodeError("a TIFF without its palette");
    for (size_t c = 0; c < 3; ++c) {
      pixels_.palette[c].resize(size_t{1} << pixels_.bits);
      std::transform(maps[c], maps[c] + pixels_.palette[c].size(), pixels_.palette[c].begin(),
                     [](uint16_t value) { return static_cast<uint8_t>(value >> 8); });
    }
  }

  void read_alpha(int64_t colours) {
    uint16_t count = 0;
    uint16_t* kinds = nullptr;
    TIFFGetFieldDefaulted(tiff_.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds);
    const bool has_colours = pixels_.colours != TiffColours::palette && pixels_.colours != TiffColours::cmyk;
    pixels_.has_multiplied_alpha =
        has_colours && samples_ > colours && count > 0 && kinds[0] == EXTRASAMPLE_ASSOCALPHA;
  }

  void read_layout() {
    is_tiled_ = TIFFIsTiled(tiff_.get()) != 0;
    uint32_t high = 0, wide = 0;
    if (!is_tiled_) {
      TIFFGetFieldDefaulted(tiff_.get(), TIFFTAG_ROWSPERSTRIP, &high);
      part_height_ = std::clamp<int64_t>(high, 1, std::max<int64_t>(height_, 1));
      return;
    }
    TIFFGetField(tiff_.get(), TIFFTAG_TILEWIDTH, &wide);
    TIFFGetField(tiff_.get(), TIFFTAG_TILELENGTH, &high);
    part_width_ = wide, part_height_ = high;
    if (wide < 1 || high < 1 || part_width_ > std::max(kLargestTile, width_ + 15) ||
        part_height_ > std::max(kLargestTile, height_ + 15))
      throw DecodeError(fmt::format("a TIFF with tiles of {} x {} pixels", wide, high));
  }

  /// Only some parts are read, and a file cut off within another one would pass.
  void require_end() const {
    const uint32_t parts = is_tiled_ ? TIFFNumberOfTiles(tiff_.get()) : TIFFNumberOfStrips(tiff_.get());
    for (uint32_t i = 0; i < parts; ++i) {
      const uint64_t offset = TIFFGetStrileOffset(tiff_.get(), i);
      const uint64_t bytes = TIFFGetStrileByteCount(tiff_.get(), i);
      if (offset > file_.size() || bytes > file_.size() - offset)
        throw DecodeError("the file ends within the image");
    }
    require(true);
  }

  int64_t stored() const { return is_planar_ ? 1 : samples_; }
  /// Of `width` pixels in a row.
  int64_t row_bytes(int64_t width) const { return (width * stored() * pixels_.bits + 7) / 8; }

  void read_strips(int64_t plane, uint8_t* to) {
    const auto bytes = static_cast<int64_t>(TIFFScanlineSize(tiff_.get()));
    if (bytes < row_bytes(width_)) throw DecodeError("a TIFF with rows of another length");
    part_.resize(static_cast<size_t>(bytes));
    // Rows of a strip refer to earlier ones.
    for (int64_t y = rows_.first - rows_.first % part_height_; y < rows_.end; ++y) {
      require(TIFFReadScanline(tiff_.get(), part_.data(), static_cast<uint32_t>(y),
                               static_cast<uint16_t>(plane)) == 1);
      put_row(part_.data(), 0, width_, y, plane, to);
    }
  }

  void read_tiles(int64_t plane, uint8_t* to) {
    const auto bytes = static_cast<int64_t>(TIFFTileSize(tiff_.get()));
    const int64_t row = row_bytes(part_width_);
    if (bytes < row * part_height_) throw DecodeError("a TIFF with tiles of another size");
    part_.resize(static_cast<size_t>(bytes));
    for (int64_t top = rows_.first - rows_.first % part_height_; top < rows_.end; top += part_height_) {
      for (int64_t left = columns_.first - columns_.first % part_width_; left < columns_.end;
           left += part_width_) {
        require(TIFFReadTile(tiff_.get(), part_.data(), static_cast<uint32_t>(left),
                             static_cast<uint32_t>(top), 0, static_cast<uint16_t>(plane)) >= 0);
        const int64_t end = std::min(part_height_, rows_.end - top);
        for (int64_t y = 0; y < end; ++y)
          put_row(part_.data() + y * row, left, left + part_width_, top + y, plane, to);
      }
    }
  }

  /// The wanted pixels of columns [left, right) of row y.
  void put_row(const uint8_t* row, int64_t left, int64_t right, int64_t y, int64_t plane, uint8_t* to) const {
    if (y < rows_.first) return;
    const int64_t first = std::max(left, columns_.first), end = std::min(right, columns_.end);
    const int64_t width = columns_.end - columns_.first;
    to += 4 * ((y - rows_.first) * width + first - columns_.first) + plane;
    pixels_.unpack(row, (first - left) * stored(), end - first, stored(), is_planar_ ? 1 : pixels_.used(),
                   to);
  }

  std::span<const uint8_t> file_;
  uint64_t at_ = 0;         // in the file
  bool has_ended_ = false;  // the file, within a read
  bool has_failed_ = false;
  std::array<char, 160> message_{};
  std::unique_ptr<TIFF, CloseTiff> tiff_;
  int64_t height_ = 0, width_ = 0, samples_ = 1;
  bool is_planar_ = false, is_tiled_ = false;
  int64_t part_height_ = 1, part_width_ = 0;  // of a strip or tile
  TiffPixels pixels_;
  PixelRange rows_, columns_;
  std::vector<uint8_t> part_;  // a row of a strip, or a tile
};

}  // namespace

bool reads_tiff() {
  return true;
}

std::unique_ptr<ImageDecoder> make_tiff_decoder(std::span<const uint8_t> file) {
  return std::make_unique<TiffDecoder>(file);
}

}  // namespace trainer

#else

namespace trainer {

bool reads_tiff() {
  return false;
}

std::unique_ptr<ImageDecoder> make_tiff_decoder(std::span<const uint8_t>) {
  throw DecodeError("a TIFF; this program was built without libtiff: convert it");
}

}  // namespace trainer

#endif
