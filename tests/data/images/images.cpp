// SPDX-License-Identifier: Apache-2.0
#include "tests/data/images/images.h"

#include <png.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
// After <cstdio>: it uses types from it without including it.
#include <jpeglib.h>

namespace trainer {
namespace {

/// A TIFF structure with nothing but the orientation.
std::string exif(int orientation) {
  std::string tiff("MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19);
  tiff += static_cast<char>(orientation);
  return tiff + std::string(6, '\0');
}

}  // namespace

Drawing draw(int height, int width, int channels, const std::function<int(int y, int x, int c)>& value) {
  Drawing drawing{height, width, channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) drawing.values.push_back(static_cast<uint8_t>(value(y, x, c)));
    }
  }
  return drawing;
}

Drawing landscape(int height, int width, int channels) {
  uint32_t noise = 1;
  return draw(height, width, channels, [&](int y, int x, int c) {
    noise = noise * 1664525u + 1013904223u;
    const double wave =
        std::sin(0.05 * x * (c + 1)) + std::cos(0.04 * y + c) + 0.5 * std::sin(0.3 * (x + 2 * y));
    return 128 + static_cast<int>(40 * wave) + static_cast<int>(noise >> 29);
  });
}

std::string jpeg(const Drawing& drawing, const JpegOptions& options) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &memory, &bytes);
  info.image_height = static_cast<JDIMENSION>(drawing.height);
  info.image_width = static_cast<JDIMENSION>(drawing.width);
  info.input_components = drawing.channels;
  info.in_color_space = drawing.channels == 1 ? JCS_GRAYSCALE : drawing.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  const std::string& colours = options.colours;
  jpeg_set_colorspace(&info, colours == "grey"   ? JCS_GRAYSCALE
                             : colours == "rgb"  ? JCS_RGB
                             : colours == "cmyk" ? JCS_CMYK
                             : colours == "ycck" ? JCS_YCCK
                                                 : JCS_YCbCr);
  if (drawing.channels == 4) info.write_Adobe_marker = options.adobe;
  jpeg_set_quality(&info, options.quality, TRUE);
  info.comp_info[0].h_samp_factor = options.h_samples;
  info.comp_info[0].v_samp_factor = options.v_samples;
  info.restart_in_rows = options.restart_rows;
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (options.orientation != 0) {
    const std::string marker = std::string("Exif\0\0", 6) + exif(options.orientation);
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(marker.data()),
                      static_cast<unsigned>(marker.size()));
  }
  const auto stride = static_cast<size_t>(drawing.width) * static_cast<size_t>(drawing.channels);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(drawing.values.data() + info.next_scanline * stride);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<char*>(memory), bytes);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return file;
}

Image by_libjpeg(const std::string& file) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  info.do_block_smoothing = FALSE;
  jpeg_start_decompress(&info);
  Image image;
  image.resize(3, info.output_height, info.output_width);
  std::vector<uint8_t> line(3 * info.output_width);
  const size_t plane = image.pixels.size() / 3;
  for (size_t at = 0; info.output_scanline < info.output_height; at += info.output_width) {
    JSAMPROW row = line.data();
    jpeg_read_scanlines(&info, &row, 1);
    for (size_t i = 0; i < line.size(); ++i) image.pixels[i % 3 * plane + at + i / 3] = line[i];
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return image;
}

namespace {

void append(png_structp png, png_bytep bytes, png_size_t count) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(bytes), count);
}

int colour_type(const Drawing& drawing, const PngOptions& options) {
  if (!options.palette.empty()) return PNG_COLOR_TYPE_PALETTE;
  constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA};
  return kTypes[drawing.channels - 1];
}

/// One row in the file's depth: values of fewer than 8 bits are packed, the first in the highest bits.
std::vector<uint8_t> packed_row(const uint8_t* values, size_t count, int bits) {
  std::vector<uint8_t> row;
  for (size_t i = 0; i < count; ++i) {
    if (bits >= 8) {
      row.insert(row.end(), bits == 16 ? 2 : 1, values[i]);
      continue;
    }
    const size_t in_byte = i * static_cast<size_t>(bits) % 8;
    if (in_byte == 0) row.push_back(0);
    row.back() = static_cast<uint8_t>(row.back() | values[i] << (8 - bits - static_cast<int>(in_byte)));
  }
  return row;
}

}  // namespace

std::string png(const Drawing& drawing, const PngOptions& options) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &file, append, [](png_structp) {});
  png_set_IHDR(png, info, static_cast<png_uint_32>(drawing.width), static_cast<png_uint_32>(drawing.height),
               options.bits, colour_type(drawing, options),
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
               PNG_FILTER_TYPE_BASE);
  std::vector<png_color> colours;
  for (size_t i = 0; i < options.palette.size(); i += 3) {
    colours.push_back({options.palette[i], options.palette[i + 1], options.palette[i + 2]});
  }
  if (!colours.empty()) png_set_PLTE(png, info, colours.data(), static_cast<int>(colours.size()));
  if (!options.palette_alpha.empty()) {
    png_set_tRNS(png, info, options.palette_alpha.data(), static_cast<int>(options.palette_alpha.size()),
                 nullptr);
  }
  std::string tiff = exif(options.orientation);
  if (options.orientation != 0) {
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(tiff.size()),
                   reinterpret_cast<png_bytep>(tiff.data()));
  }
  std::vector<std::vector<uint8_t>> rows;
  std::vector<png_bytep> pointers;
  const auto stride = static_cast<size_t>(drawing.width) * static_cast<size_t>(drawing.channels);
  for (size_t y = 0; y < static_cast<size_t>(drawing.height); ++y) {
    rows.push_back(packed_row(drawing.values.data() + y * stride, stride, options.bits));
  }
  for (std::vector<uint8_t>& row : rows) pointers.push_back(row.data());
  png_write_info(png, info);
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace trainer
