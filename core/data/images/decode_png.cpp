// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_png.h"

#include <fmt/core.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <vector>

#include "core/data/images/orientation.h"
#include "core/data/images/resample.h"

namespace trainer {
namespace {

constexpr std::array<uint8_t, 8> kMagic = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

/// Type and checksum of the chunk that ends every PNG; its length, 0, comes before them.
constexpr std::array<uint8_t, 8> kEnd = {'I', 'E', 'N', 'D', 0xAE, 0x42, 0x60, 0x82};

/// Memory that a chunk may need beyond the file's own size: unpacked colour profiles.
constexpr size_t kLeastChunkLimit = size_t{1} << 20;

/// libpng's working state. Its functions leave by longjmp, so that nothing in here may need a destructor.
struct PngState {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const uint8_t* at = nullptr;  // the file's bytes not yet read
  size_t left = 0;
  bool lacks_memory = false;
  std::array<char, 128> message{};
};

/// libpng reports a lack of memory with a different text at each place, or says that the file is damaged.
void* allocate(png_structp png, png_alloc_size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) static_cast<PngState*>(png_get_mem_ptr(png))->lacks_memory = true;
  return memory;
}

void release(png_structp, void* memory) {
  std::free(memory);
}

void on_read(png_structp png, png_bytep into, size_t bytes) {
  auto& state = *static_cast<PngState*>(png_get_io_ptr(png));
  if (bytes > state.left) png_error(png, "the file ends within the image");
  std::memcpy(into, state.at, bytes);
  state.at += bytes;
  state.left -= bytes;
}

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto& state = *static_cast<PngState*>(png_get_error_ptr(png));
  std::snprintf(state.message.data(), state.message.size(), "%s", text);
  png_longjmp(png, 1);
}

/// Warnings are about chunks that pixels do not depend on.
void on_warning(png_structp, png_const_charp) {}

class PngDecoder final : public ImageDecoder {
 public:
  explicit PngDecoder(std::span<const uint8_t> file) : file_(file) {
    state_.at = file.data();
    state_.left = file.size();
    state_.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &state_, on_error, on_warning, &state_,
                                          allocate, release);
    if (state_.png != nullptr) state_.info = png_create_info_struct(state_.png);
    if (state_.info != nullptr) return;
    png_destroy_read_struct(&state_.png, nullptr, nullptr);
    throw std::bad_alloc();
  }
  ~PngDecoder() override { png_destroy_read_struct(&state_.png, &state_.info, nullptr); }

  ImageHeader read_header() override {
    check_lengths();
    guarded([this] {
      png_set_read_fn(state_.png, &state_, on_read);
      // libpng would take the memory that a chunk claims to need before it reads the chunk.
      png_set_chunk_malloc_max(state_.png, std::max(state_.left, kLeastChunkLimit));
      png_read_info(state_.png, state_.info);
    });
    return {png_get_image_height(state_.png, state_.info), png_get_image_width(state_.png, state_.info),
            orientation()};
  }

  bool take_window(const PixelWindow& window) override {
    window_ = window;
    return true;
  }

  /// Unpacks the part of the image that the view needs into image.spare; then makes the view of it.
  void decode(View view, Image& image) override {
    require_end();
    int passes = 1;
    guarded([this, &passes] { passes = read_as_rgbx(); });
    const auto height = static_cast<int64_t>(png_get_image_height(state_.png, state_.info));
    const auto width = static_cast<int64_t>(png_get_image_width(state_.png, state_.info));
    const int64_t stride = pixel_bytes() * width;
    // Rows of an interlaced image are only whole once all are read.
    const PixelRange rows = passes > 1 ? PixelRange{0, height} : pixels_read(view.y);
    image.spare.resize(static_cast<size_t>(stride * (rows.end - rows.first)));
    read_rows(rows, stride, passes, image.spare.data());
    if (window_) apply_window(image.spare);
    view.y = view.y.shifted(rows.first);
    resample({image.spare.data(), 4 * width}, view, image);
  }

  /// After read_header(): the numbers that are stored, a byte for each pixel.
  void read_values(const ImageHeader& header, std::vector<uint8_t>& into) {
    require_end();
    const int type = png_get_color_type(state_.png, state_.info),
              depth = png_get_bit_depth(state_.png, state_.info);
    if ((type != PNG_COLOR_TYPE_GRAY && type != PNG_COLOR_TYPE_PALETTE) || depth > 8) {
      throw DecodeError(
          fmt::format("a mask must be a grey or palette PNG of up to 8 bits, found {}{} of {} bits",
                      (type & PNG_COLOR_MASK_COLOR) != 0 ? "RGB" : "grey",
                      (type & PNG_COLOR_MASK_ALPHA) != 0 ? " with transparency" : "", depth));
    }
    int passes = 1;
    guarded([this, &passes] {
      png_set_packing(state_.png);
      passes = png_set_interlace_handling(state_.png);
      png_read_update_info(state_.png, state_.info);
    });
    into.resize(static_cast<size_t>(header.height * header.width));
    read_rows({0, header.height}, header.width, passes, into.data());
  }

 private:
  template <class Step>
  void guarded(const Step& step) {
    run_guarded(png_jmpbuf(state_.png), step, [this] { fail(); });
    if (state_.lacks_memory) throw std::bad_alloc();  // a chunk that is left out may be how to turn the image
  }

  [[noreturn]] void fail() const {
    if (state_.lacks_memory) throw std::bad_alloc();
    throw DecodeError(state_.message.data());
  }

  int orientation() {
    png_bytep exif = nullptr;
    png_uint_32 bytes = 0;
    guarded([this, &exif, &bytes] { png_get_eXIf_1(state_.png, state_.info, &bytes, &exif); });
    return exif == nullptr ? 1 : exif_orientation({exif, bytes});
  }

  /// A chunk before the pixels; libpng allocates the memory that some claim to need, whatever the limit.
  void check_lengths() const {
    for (size_t at = 8; at + 8 <= file_.size();) {
      const uint8_t* chunk = file_.data() + at;
      if (std::memcmp(chunk + 4, "IDAT", 4) == 0) return;
      const size_t length =
          size_t{chunk[0]} << 24 | size_t{chunk[1]} << 16 | size_t{chunk[2]} << 8 | chunk[3];
      if (length > file_.size() - at - 8) throw DecodeError("the file ends within the image");
      at += 12 + length;
    }
  }

  void require_end() const {
    const auto found = std::find_end(file_.begin(), file_.end(), kEnd.begin(), kEnd.end());
    if (found == file_.end()) throw DecodeError("the file ends within the image");
  }

  /// Whether samples keep their 16 bits until the window.
  bool is_wide() const { return window_ && png_get_bit_depth(state_.png, state_.info) == 16; }
  int64_t pixel_bytes() const { return is_wide() ? 8 : 4; }

  /// In place: 16-bit numbers, the high byte first, become bytes.
  void apply_window(std::vector<uint8_t>& samples) const {
    const std::vector<uint8_t> byte_of = window_->table(is_wide() ? 65535 : 255);
    const size_t bytes = is_wide() ? 2 : 1, count = samples.size() / bytes;
    for (size_t i = 0; i < count; ++i)
      samples[i] = byte_of[bytes == 1 ? samples[i] : size_t{samples[2 * i]} << 8 | samples[2 * i + 1]];
  }

  /// Returns the number of passes over the rows.
  int read_as_rgbx() {
    png_set_expand(state_.png);
    if (!is_wide()) png_set_scale_16(state_.png);
    png_set_gray_to_rgb(state_.png);
    png_set_strip_alpha(state_.png);
    png_set_filler(state_.png, 0xFF, PNG_FILLER_AFTER);
    const int passes = png_set_interlace_handling(state_.png);
    png_read_update_info(state_.png, state_.info);
    if (png_get_rowbytes(state_.png, state_.info) !=
        static_cast<size_t>(pixel_bytes()) * png_get_image_width(state_.png, state_.info)) {
      png_error(state_.png, "cannot be converted to 8 bits for each of three colours");
    }
    return passes;
  }

  /// Rows [0, first) are unpacked too, each over the one before, because later rows refer to them.
  void read_rows(const PixelRange& rows, int64_t stride, int passes, uint8_t* to) {
    guarded([this, &rows, stride, passes, to] {
      for (int pass = 0; pass < passes; ++pass) {
        for (int64_t row = 0; row < rows.end; ++row) {
          png_read_row(state_.png, to + std::max<int64_t>(0, row - rows.first) * stride, nullptr);
        }
      }
    });
  }

  PngState state_;
  std::span<const uint8_t> file_;
  std::optional<PixelWindow> window_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_png_decoder(std::span<const uint8_t> file) {
  return std::make_unique<PngDecoder>(file);
}

bool is_png(std::span<const uint8_t> file) {
  return file.size() >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), file.begin());
}

void decode_png_values(std::span<const uint8_t> file, int64_t height, int64_t width,
                       std::vector<uint8_t>& into) {
  if (!is_png(file)) throw DecodeError(file.empty() ? "the file is empty" : "not a PNG by its first bytes");
  PngDecoder decoder(file);
  const ImageHeader header = decoder.read_header();
  if (header.height != height || header.width != width)
    throw DecodeError(fmt::format("expected the image's size, {}x{} pixels, found {}x{}", width, height,
                                  header.width, header.height));
  decoder.read_values(header, into);
}

}  // namespace trainer
