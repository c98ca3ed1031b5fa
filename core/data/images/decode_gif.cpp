// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/decode_gif.h"

#ifdef TRAINER_GIF
#include <fmt/core.h>
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <vector>

#include "core/data/images/resample.h"

namespace trainer {
namespace {

/// The rows of an interlaced frame come in four passes: the first row of each, and the rows between two.
struct GifPass {
  int64_t first, step;
};
constexpr std::array<GifPass, 4> kGifPasses = {{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
constexpr std::array<GifPass, 1> kGifRows = {{{0, 1}}};

/// An extension block before a frame: its length, flags, delay, transparent colour.
constexpr size_t kControlLength = 4;

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

class GifDecoder final : public ImageDecoder {
 public:
  explicit GifDecoder(std::span<const uint8_t> file) : left_(file) {}

  ImageHeader read_header() override {
    int error = 0;
    gif_.reset(DGifOpen(this, read, &error));
    if (gif_ == nullptr) fail(error);
    while (next_record() != IMAGE_DESC_RECORD_TYPE) read_extension();
    require(DGifGetImageDesc(gif_.get()));
    const GifImageDesc& frame = gif_->Image;
    if (frame.Width < 1 || frame.Height < 1)
      throw DecodeError(fmt::format("a GIF with a frame of {} x {} pixels", frame.Width, frame.Height));
    height_ = std::max<int64_t>(gif_->SHeight, int64_t{frame.Top} + frame.Height);
    width_ = std::max<int64_t>(gif_->SWidth, int64_t{frame.Left} + frame.Width);
    return {height_, width_, 1};
  }

  /// Decodes the whole frame, so that a missing end is seen; keeps the rows that the view needs.
  void decode(View view, Image& image) override {
    const PixelRange rows = pixels_read(view.y);
    read_palette();
    image.spare.resize(static_cast<size_t>(4 * width_ * (rows.end - rows.first)));
    const GifColorType beside = palette_[transparent_.value_or(0)];
    for (auto to = image.spare.begin(); to != image.spare.end(); to += 4) put(beside, &*to);
    const GifImageDesc& frame = gif_->Image;
    std::vector<GifPixelType> line(static_cast<size_t>(frame.Width));
    const std::span<const GifPass> passes = frame.Interlace ? std::span<const GifPass>(kGifPasses) : kGifRows;
    for (const GifPass& pass : passes) {
      for (int64_t row = pass.first; row < frame.Height; row += pass.step) {
        require(DGifGetLine(gif_.get(), line.data(), frame.Width));
        const int64_t y = frame.Top + row;
        if (y < rows.first || y >= rows.end) continue;
        uint8_t* to = image.spare.data() + 4 * ((y - rows.first) * width_ + frame.Left);
        for (size_t x = 0; x < line.size(); ++x) put(palette_[line[x]], to + 4 * x);
      }
    }
    view.y = view.y.shifted(rows.first);
    resample({image.spare.data(), 4 * width_}, view, image);
  }

 private:
  static int read(GifFileType* gif, GifByteType* bytes, int count) {
    auto& self = *static_cast<GifDecoder*>(gif->UserData);
    const auto wanted = static_cast<size_t>(std::max(count, 0));
    const size_t taken = std::min(self.left_.size(), wanted);
    self.has_ended_ = taken < wanted;
    std::copy_n(self.left_.begin(), taken, bytes);
    self.left_ = self.left_.subspan(taken);
    return static_cast<int>(taken);
  }

  static void put(const GifColorType& colour, uint8_t* to) {
    to[0] = colour.Red, to[1] = colour.Green, to[2] = colour.Blue, to[3] = 0xFF;
  }

  void require(int status) const {
    if (status != GIF_OK) fail(gif_->Error);
  }

  /// giflib has no single number for a file that ends too soon.
  [[noreturn]] void fail(int error) const {
    if (error == D_GIF_ERR_NOT_ENOUGH_MEM) throw std::bad_alloc();
    throw DecodeError(has_ended_ ? "the file ends within the image" : "damaged GIF data");
  }

  GifRecordType next_record() {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    require(DGifGetRecordType(gif_.get(), &type));
    if (type == TERMINATE_RECORD_TYPE) throw DecodeError("a GIF without a frame");
    return type;
  }

  /// Keeps the transparent colour, and passes over all else.
  void read_extension() {
    int code = 0;
    GifByteType* block = nullptr;
    require(DGifGetExtension(gif_.get(), &code, &block));
    while (block != nullptr) {
      const bool is_control = code == GRAPHICS_EXT_FUNC_CODE && block[0] == kControlLength;
      if (is_control && (block[1] & 1) != 0) transparent_ = block[4];
      require(DGifGetExtensionNext(gif_.get(), &block));
    }
  }

  /// Without a palette numbers are shades of grey; those after its end are black, as Pillow takes them.
  void read_palette() {
    const ColorMapObject* map = gif_->Image.ColorMap != nullptr ? gif_->Image.ColorMap : gif_->SColorMap;
    if (map != nullptr) {
      std::copy_n(map->Colors, std::min(palette_.size(), static_cast<size_t>(map->ColorCount)),
                  palette_.begin());
      return;
    }
    for (size_t i = 0; i < palette_.size(); ++i) {
      const auto grey = static_cast<GifByteType>(i);
      palette_[i] = {grey, grey, grey};
    }
  }

  std::span<const uint8_t> left_;
  bool has_ended_ = false;  // the file, within the last read
  std::unique_ptr<GifFileType, CloseGif> gif_;
  int64_t height_ = 0, width_ = 0;
  std::optional<uint8_t> transparent_;
  std::array<GifColorType, 256> palette_{};
};

}  // namespace

bool reads_gif() {
  return true;
}

std::unique_ptr<ImageDecoder> make_gif_decoder(std::span<const uint8_t> file) {
  return std::make_unique<GifDecoder>(file);
}

}  // namespace trainer

#else

namespace trainer {

bool reads_gif() {
  return false;
}

std::unique_ptr<ImageDecoder> make_gif_decoder(std::span<const uint8_t>) {
  throw DecodeError("a GIF; this program was built without giflib: convert it");
}

}  // namespace trainer

#endif
