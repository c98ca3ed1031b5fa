// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/encode_jpeg.h"

#include <fmt/core.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

// After <cstdio>: it uses types from it without including it.
#include <jpeglib.h>

#include "core/base/error.h"
#include "core/data/images/image_decoder.h"

namespace trainer {
namespace {

/// libjpeg's working state. Its functions leave by longjmp, so that nothing in here may need a destructor.
struct JpegWriting {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
  unsigned char* file;
  unsigned long bytes;
};

[[noreturn]] void leave_writing(j_common_ptr info) {
  auto& state = *static_cast<JpegWriting*>(info->client_data);
  (*info->err->format_message)(info, state.message.data());
  std::longjmp(state.jump, 1);
}

/// Releases libjpeg's memory and the file's.
class JpegWriter {
 public:
  JpegWriter() {
    state_.info.err = ::jpeg_std_error(&state_.errors);
    state_.errors.error_exit = leave_writing;
    state_.info.client_data = &state_;
  }
  ~JpegWriter() {
    ::jpeg_destroy_compress(&state_.info);
    std::free(state_.file);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  std::string write(const Image& image, int quality) {
    const auto fail = [this] {
      throw Error(ExitCode::internal, fmt::format("a JPEG of an image: {}", state_.message.data()));
    };
    run_guarded(
        state_.jump,
        [this, &image, quality] {
          ::jpeg_create_compress(&state_.info);
          state_.info.client_data = &state_;
          ::jpeg_mem_dest(&state_.info, &state_.file, &state_.bytes);
          state_.info.image_width = static_cast<JDIMENSION>(image.width);
          state_.info.image_height = static_cast<JDIMENSION>(image.height);
          state_.info.input_components = static_cast<int>(image.channels);
          state_.info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
          ::jpeg_set_defaults(&state_.info);
          ::jpeg_set_quality(&state_.info, quality, TRUE);
          ::jpeg_start_compress(&state_.info, TRUE);
        },
        fail);
    std::vector<uint8_t> row(static_cast<size_t>(image.width * image.channels));
    for (int64_t y = 0; y < image.height; ++y) {
      for (int64_t x = 0; x < image.width; ++x)
        for (int64_t c = 0; c < image.channels; ++c)
          row[static_cast<size_t>(x * image.channels + c)] =
              image.pixels[static_cast<size_t>((c * image.height + y) * image.width + x)];
      JSAMPROW line = row.data();
      run_guarded(
          state_.jump, [this, &line] { ::jpeg_write_scanlines(&state_.info, &line, 1); }, fail);
    }
    run_guarded(
        state_.jump, [this] { ::jpeg_finish_compress(&state_.info); }, fail);
    return {reinterpret_cast<const char*>(state_.file), state_.bytes};
  }

 private:
  JpegWriting state_{};
};

}  // namespace

std::string encode_jpeg(const Image& image, int64_t quality) {
  const bool fits = (image.channels == 1 || image.channels == 3) && image.height > 0 && image.width > 0 &&
                    image.height <= JPEG_MAX_DIMENSION && image.width <= JPEG_MAX_DIMENSION;
  if (!fits)
    throw std::invalid_argument(
        fmt::format("a JPEG has 1 or 3 channels of at most {} x {} pixels, got {}x{}x{}", JPEG_MAX_DIMENSION,
                    JPEG_MAX_DIMENSION, image.channels, image.height, image.width));
  return JpegWriter().write(image, static_cast<int>(quality));
}

}  // namespace trainer
