// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_jpeg2000.h"

#ifdef TRAINER_JPEG2000
#include <fmt/core.h>
#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "core/data/images/jpeg2000_layout.h"
#include "core/data/images/resample.h"

namespace trainer {
namespace {

constexpr size_t kStreamBytes = size_t{64} << 10;
constexpr uint32_t kMostJpeg2000Bits = 16;

struct DestroyCodec {
  void operator()(opj_codec_t* codec) const { opj_destroy_codec(codec); }
};
struct DestroyStream {
  void operator()(opj_stream_t* stream) const { opj_stream_destroy(stream); }
};
struct DestroyJpeg2000Image {
  void operator()(opj_image_t* image) const { opj_image_destroy(image); }
};

class Jpeg2000Decoder final : public ImageDecoder {
 public:
  explicit Jpeg2000Decoder(std::span<const uint8_t> file) : file_(file) {}

  ImageHeader read_header() override {
    const Jpeg2000Layout layout = read_jpeg2000_layout(file_);
    return {layout.height, layout.width, 1};
  }

  bool take_window(const PixelWindow& window) override {
    window_ = window;
    return true;
  }

  /// Decodes the part of the image that the view needs, then makes the view of it.
  void decode(View view, Image& image) override {
    const PixelRange rows = pixels_read(view.y), columns = pixels_read(view.x);
    const int64_t width = columns.end - columns.first, height = rows.end - rows.first;
    decode_area(rows, columns);
    check_result(width, height);
    image.spare.resize(static_cast<size_t>(4 * width * height));
    const bool has_colours = image_->numcomps >= 3;
    for (uint32_t c = 0; c < 3; ++c)
      put(image_->comps[has_colours ? c : 0], width * height, image.spare.data() + c);
    image_.reset();
    view = {view.y.shifted(rows.first), view.x.shifted(columns.first)};
    resample({image.spare.data(), 4 * width}, view, image);
  }

 private:
  static OPJ_SIZE_T read(void* bytes, OPJ_SIZE_T count, void* data) {
    auto& self = *static_cast<Jpeg2000Decoder*>(data);
    const size_t taken = std::min(count, self.file_.size() - self.at_);
    if (taken == 0) return static_cast<OPJ_SIZE_T>(-1);
    std::memcpy(bytes, self.file_.data() + self.at_, taken);
    self.at_ += taken;
    return taken;
  }
  static OPJ_OFF_T skip(OPJ_OFF_T count, void* data) {
    auto& self = *static_cast<Jpeg2000Decoder*>(data);
    if (count < 0) return -1;
    const size_t taken = std::min(static_cast<size_t>(count), self.file_.size() - self.at_);
    self.at_ += taken;
    return taken == 0 && count > 0 ? -1 : static_cast<OPJ_OFF_T>(taken);
  }
  static OPJ_BOOL seek(OPJ_OFF_T to, void* data) {
    auto& self = *static_cast<Jpeg2000Decoder*>(data);
    if (to < 0 || static_cast<size_t>(to) > self.file_.size()) return OPJ_FALSE;
    self.at_ = static_cast<size_t>(to);
    return OPJ_TRUE;
  }

  static void on_error(const char* text, void* data) {
    std::string& message = static_cast<Jpeg2000Decoder*>(data)->message_;
    if (!message.empty()) return;
    message = text;
    while (!message.empty() && message.back() == '\n') message.pop_back();
  }
  /// Warnings are about parts that pixels do not depend on; the layout was checked before.
  static void on_note(const char*, void*) {}

  void require(bool is_good) const {
    if (!is_good) throw DecodeError(fmt::format("damaged JPEG 2000 data: {}", message_));
  }

  void decode_area(const PixelRange& rows, const PixelRange& columns) {
    const bool is_bare = is_jpeg2000_codestream(file_);
    const std::unique_ptr<opj_codec_t, DestroyCodec> codec(
        opj_create_decompress(is_bare ? OPJ_CODEC_J2K : OPJ_CODEC_JP2));
    const std::unique_ptr<opj_stream_t, DestroyStream> stream(
        opj_stream_create(std::min(kStreamBytes, file_.size()), OPJ_TRUE));
    if (codec == nullptr || stream == nullptr) throw std::bad_alloc();
    opj_stream_set_user_data(stream.get(), this, nullptr);
    opj_stream_set_user_data_length(stream.get(), file_.size());
    opj_stream_set_read_function(stream.get(), read);
    opj_stream_set_skip_function(stream.get(), skip);
    opj_stream_set_seek_function(stream.get(), seek);
    opj_set_error_handler(codec.get(), on_error, this);
    opj_set_warning_handler(codec.get(), on_note, this);
    opj_set_info_handler(codec.get(), on_note, this);
    opj_dparameters_t parameters;
    opj_set_default_decoder_parameters(&parameters);
    require(opj_setup_decoder(codec.get(), &parameters) != 0);
    opj_decoder_set_strict_mode(codec.get(), OPJ_TRUE);
    opj_image_t* opened = nullptr;
    const bool is_open = opj_read_header(stream.get(), codec.get(), &opened) != 0;
    image_.reset(opened);
    require(is_open && opened != nullptr);
    check_components();
    const auto left = static_cast<int64_t>(opened->x0), top = static_cast<int64_t>(opened->y0);
    const auto at = [](int64_t place) { return static_cast<OPJ_INT32>(place); };
    require(opj_set_decode_area(codec.get(), opened, at(left + columns.first), at(top + rows.first),
                                at(left + columns.end), at(top + rows.end)) != 0);
    require(opj_decode(codec.get(), stream.get(), opened) != 0);
  }

  void check_components() const {
    for (uint32_t i = 0; i < image_->numcomps; ++i) {
      const opj_image_comp_t& component = image_->comps[i];
      if (component.dx != 1 || component.dy != 1)
        throw DecodeError("a JPEG 2000 file with components of another resolution; convert it to RGB");
      if (component.prec < 1 || component.prec > kMostJpeg2000Bits)
        throw DecodeError(fmt::format("a JPEG 2000 file of {} bits; up to 16 are read", component.prec));
    }
  }

  void check_result(int64_t width, int64_t height) const {
    // OpenJPEG says so only after it has decoded them.
    if (image_->color_space == OPJ_CLRSPC_SYCC || image_->color_space == OPJ_CLRSPC_EYCC ||
        image_->color_space == OPJ_CLRSPC_CMYK)
      throw DecodeError("a JPEG 2000 file of YCC or CMYK; convert it to RGB");
    for (uint32_t i = 0; i < image_->numcomps; ++i) {
      const opj_image_comp_t& component = image_->comps[i];
      require(component.data != nullptr && component.w == width && component.h == height &&
              component.prec >= 1 && component.prec <= kMostJpeg2000Bits);
    }
    require(image_->numcomps >= 1);
  }

  /// One component, scaled from its range to bytes, into every fourth byte. A window applies to numbers of
  /// more than 8 bits as they are stored, also to negative ones.
  void put(const opj_image_comp_t& component, int64_t count, uint8_t* to) const {
    const int32_t most = (1 << component.prec) - 1,
                  offset = component.sgnd != 0 ? 1 << (component.prec - 1) : 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = std::clamp<int64_t>(int64_t{component.data[i]} + offset, 0, most);
      const auto byte = static_cast<uint8_t>((value * 255 + most / 2) / most);
      to[4 * i] = window_ ? window_->byte_of(component.prec > 8 ? component.data[i] : int32_t{byte}) : byte;
    }
  }

  std::span<const uint8_t> file_;
  std::optional<PixelWindow> window_;
  size_t at_ = 0;  // in the file
  std::string message_;
  std::unique_ptr<opj_image_t, DestroyJpeg2000Image> image_;
};

}  // namespace

bool reads_jpeg2000() {
  return true;
}

std::unique_ptr<ImageDecoder> make_jpeg2000_decoder(std::span<const uint8_t> file) {
  return std::make_unique<Jpeg2000Decoder>(file);
}

}  // namespace trainer

#else

namespace trainer {

bool reads_jpeg2000() {
  return false;
}

std::unique_ptr<ImageDecoder> make_jpeg2000_decoder(std::span<const uint8_t>) {
  throw DecodeError("a JPEG 2000 file; this program was built without OpenJPEG: convert it");
}

}  // namespace trainer

#endif
