// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_jpeg.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>

// After <cstdio>: it uses types from it without including it.
#include <jerror.h>
#include <jpeglib.h>

#include "core/data/images/jpeg_scan.h"
#include "core/data/images/orientation.h"
#include "core/data/images/resample.h"

namespace trainer {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr std::array<uint8_t, 6> kExifName = {'E', 'x', 'i', 'f', 0, 0};
/// A small file can hold thousands of scans, and each covers the whole image. Encoders write about ten.
constexpr int kMaxScans = 100;
/// Colours between two pixels depend on both, so that pixels at a window's edge need some beyond it.
constexpr int64_t kColourReach = 2;
/// The fractions of its size that a JPEG is quickly decoded to; libjpeg-turbo has no vector code for the
/// others.
constexpr std::array<int64_t, 3> kEighths = {1, 2, 4};

/// libjpeg's working state. Its functions leave by longjmp, so that nothing in here may need a destructor.
struct JpegState {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
};

JpegState& state_of(j_common_ptr info) {
  return *static_cast<JpegState*>(info->client_data);
}

[[noreturn]] void leave(j_common_ptr info) {
  JpegState& state = state_of(info);
  (*info->err->format_message)(info, state.message.data());
  std::longjmp(state.jump, 1);
}

/// Warnings about image data are damage; these are not about it, and ordinary cameras cause some of them.
bool is_harmless(int code) {
  return code == JWRN_ADOBE_XFORM || code == JWRN_BOGUS_ICC || code == JWRN_EXTRANEOUS_DATA ||
         code == JWRN_JFIF_MAJOR || code == JWRN_NOT_SEQUENTIAL || code == JWRN_TOO_MUCH_DATA;
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(info->err->msg_code)) leave(info);
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  std::snprintf(state_of(info).message.data(), JMSG_LENGTH_MAX, "more than %d scans", kMaxScans);
  std::longjmp(state_of(info).jump, 1);
}

class JpegDecoder final : public ImageDecoder {
 public:
  explicit JpegDecoder(std::span<const uint8_t> file) : file_(file) {
    state_.info.err = jpeg_std_error(&state_.errors);
    state_.info.client_data = &state_;
    state_.errors.error_exit = leave;
    state_.errors.emit_message = on_message;
    state_.progress.progress_monitor = on_progress;
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&state_.info); }

  ImageHeader read_header() override {
    guarded([this] {
      jpeg_create_decompress(&state_.info);
      state_.info.progress = &state_.progress;
      jpeg_mem_src(&state_.info, file_.data(), file_.size());
      jpeg_save_markers(&state_.info, kExifMarker, 0xFFFF);
      jpeg_read_header(&state_.info, TRUE);
    });
    return {state_.info.image_height, state_.info.image_width, orientation()};
  }

  /// Decodes the part of the image that the view needs into image.spare; then makes the view of it.
  void decode(View view, Image& image) override {
    start(view);
    const int64_t eighths = state_.info.scale_num;
    view = {view.y.scaled(eighths), view.x.scaled(eighths)};
    PixelRange rows = with_colour_reach(pixels_read(view.y), state_.info.output_height);
    PixelRange columns = with_colour_reach(pixels_read(view.x), state_.info.output_width);
    read_pixels(rows, columns, image.spare);
    if (state_.info.out_color_space == JCS_CMYK) cmyk_to_rgb(image.spare);
    view = {view.y.shifted(rows.first), view.x.shifted(columns.first)};
    resample({image.spare.data(), 4 * static_cast<int64_t>(state_.info.output_width)}, view, image);
  }

 private:
  template <class Step>
  void guarded(const Step& step) {
    run_guarded(state_.jump, step, [this] { fail(); });
  }

  [[noreturn]] void fail() const {
    if (state_.errors.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
    throw DecodeError(state_.message.data());
  }

  int orientation() const {
    for (const jpeg_marker_struct* marker = state_.info.marker_list; marker != nullptr;
         marker = marker->next) {
      const std::span<const uint8_t> bytes(marker->data, marker->data_length);
      if (marker->marker != kExifMarker || bytes.size() < kExifName.size()) continue;
      if (!std::equal(kExifName.begin(), kExifName.end(), bytes.begin())) continue;
      return exif_orientation(bytes.subspan(kExifName.size()));
    }
    return 1;
  }

  J_COLOR_SPACE colours() const {
    switch (state_.info.jpeg_color_space) {
      case JCS_GRAYSCALE:
      case JCS_RGB:
      case JCS_YCbCr:
        return JCS_EXT_RGBX;
      case JCS_CMYK:
      case JCS_YCCK:
        return JCS_CMYK;
      default:
        throw DecodeError(fmt::format("{} colour components of unknown meaning", state_.info.num_components));
    }
  }

  /// The smallest size that is at least the requested one.
  static int64_t eighths_for(const View& view) {
    const double least = std::min(view.y.scale(), view.x.scale());
    for (int64_t eighths : kEighths) {
      if (least * static_cast<double>(eighths) >= 8) return eighths;
    }
    return 8;
  }

  void start(const View& view) {
    state_.info.out_color_space = colours();
    state_.info.scale_num = static_cast<unsigned>(eighths_for(view));
    state_.info.scale_denom = 8;
    // Smoothing would guess the contents of later scans, but all of them are available.
    state_.info.do_block_smoothing = FALSE;
    guarded([this] { jpeg_start_decompress(&state_.info); });
    scan_.take_over(state_.info);
    require_end();
  }

  /// Rows after the window are not decoded, and a file cut off there would pass. The marker that ends an
  /// image cannot occur within its data.
  void require_end() {
    if (jpeg_has_multiple_scans(&state_.info)) return;  // it has read to the end
    const uint8_t* begin = state_.info.src->next_input_byte;
    const uint8_t* at = file_.data() + file_.size() - 1;
    while (at > begin && (at[0] != JPEG_EOI || at[-1] != 0xFF)) --at;
    if (at <= begin) throw DecodeError("the file ends within the image");
  }

  static PixelRange with_colour_reach(PixelRange range, int64_t size) {
    return {std::max<int64_t>(0, range.first - kColourReach), std::min(size, range.end + kColourReach)};
  }

  /// Rows of output_width pixels. Columns begin at a position that libjpeg supports, at or before the
  /// requested ones.
  void read_pixels(const PixelRange& rows, PixelRange& columns, std::vector<uint8_t>& pixels) {
    auto left = static_cast<JDIMENSION>(columns.first);
    auto width = static_cast<JDIMENSION>(columns.end - columns.first);
    guarded([this, &left, &width, &rows] {
      if (width < state_.info.output_width) jpeg_crop_scanline(&state_.info, &left, &width);
      if (rows.first > 0) jpeg_skip_scanlines(&state_.info, static_cast<JDIMENSION>(rows.first));
    });
    columns.first = left;
    const int64_t stride = 4 * static_cast<int64_t>(state_.info.output_width);
    pixels.resize(static_cast<size_t>(stride * (rows.end - rows.first)));
    uint8_t* to = pixels.data();
    guarded([this, &rows, to, stride] {
      while (state_.info.output_scanline < rows.end) {
        std::array<JSAMPROW, kRowsAtOnce> lines;
        const int64_t done = static_cast<int64_t>(state_.info.output_scanline) - rows.first;
        const int64_t count = std::min(kRowsAtOnce, rows.end - rows.first - done);
        for (int64_t i = 0; i < count; ++i) lines[static_cast<size_t>(i)] = to + (done + i) * stride;
        jpeg_read_scanlines(&state_.info, lines.data(), static_cast<JDIMENSION>(count));
      }
    });
  }

  /// As in print: the paper that each ink leaves white. Adobe's programs store 255 - ink, all others ink.
  void cmyk_to_rgb(std::vector<uint8_t>& pixels) const {
    const int flip = state_.info.saw_Adobe_marker ? 0 : 255;
    for (size_t i = 0; i < pixels.size(); i += 4) {
      const int paper = pixels[i + 3] ^ flip;
      for (size_t c = i; c < i + 3; ++c)
        pixels[c] = static_cast<uint8_t>(((pixels[c] ^ flip) * paper + 127) / 255);
    }
  }

  static constexpr int64_t kRowsAtOnce = 8;
  JpegState state_{};
  JpegScan scan_;
  std::span<const uint8_t> file_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_jpeg_decoder(std::span<const uint8_t> file) {
  return std::make_unique<JpegDecoder>(file);
}

}  // namespace trainer
