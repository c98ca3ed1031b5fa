// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/synthetic.h"

#include <algorithm>
#include <cstring>

#include "core/base/rng.h"

namespace trainer {
namespace {

/// The bytes of a run of Philox blocks, one at a time.
class RandomBytes {
 public:
  RandomBytes(uint64_t key, uint64_t id)
      : stream_(key, static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32)) {}

  /// The next four at once, the first in the lowest byte; only between whole words.
  uint32_t next_four() { return __builtin_bswap32(stream_.next_word()); }

  uint8_t next() {
    if (left_ == 0) word_ = stream_.next_word(), left_ = 4;
    --left_;
    return static_cast<uint8_t>(word_ >> (8 * left_));
  }

 private:
  RandomStream stream_;
  uint32_t word_ = 0;
  int left_ = 0;
};

// Textures are constant over cells of this many pixels. After a crop shifted by a pixel or two, or a
// convolution, most of them are still found.
constexpr int64_t kCell = 4;

class SyntheticSource : public ImageSource {
 public:
  SyntheticSource(uint64_t seed, Split split, int64_t size, Shape shape, int64_t classes, bool has_sets)
      : shape_(std::move(shape)),
        size_(size),
        classes_(classes),
        label_key_(random_key(seed, split == Split::train ? "synthetic train label" : "synthetic val label")),
        noise_key_(random_key(seed, split == Split::train ? "synthetic train noise" : "synthetic val noise")),
        texture_key_(random_key(seed, "synthetic texture")),
        has_sets_(has_sets) {
    for (int32_t label = 0; has_sets && label < classes; ++label) {
      const auto next = static_cast<int32_t>((label + 1) % classes);
      label_sets_.insert(label_sets_.end(), {std::min(label, next), std::max(label, next)});
    }
  }

  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return shape_; }
  int64_t classes() const override { return classes_; }
  int64_t resident_bytes() const override { return 0; }
  void check_labels(const AllowedLabels&) const override {}
  Fingerprint fingerprint() const override { return {}; }

  /// The mean of the first channel over the surrounding 3x3 pixels, divided into equal steps of the textures'
  /// range: a network with a receptive field of a few pixels can learn it.
  void map_labels(const Image& image, int32_t* map) const override {
    for (int64_t y = 0; y < image.height; ++y) {
      for (int64_t x = 0; x < image.width; ++x) {
        const int64_t above = mean_around(image, y, x) - kTextureLow;
        *map++ = static_cast<int32_t>(std::clamp<int64_t>(above * classes_ / kTextureRange, 0, classes_ - 1));
      }
    }
  }

  /// The image's class and the one after it.
  bool has_label_sets() const override { return has_sets_; }
  std::span<const int32_t> label_set(const Image& image) const override {
    const size_t size = classes_ == 1 ? 1 : 2;
    return std::span(label_sets_).subspan(2 * static_cast<size_t>(image.label), size);
  }

  void read(int64_t index, Image& into) const override {
    const auto id = static_cast<uint64_t>(index);
    RandomStream draw(label_key_, static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32));
    into.resize(shape_[0], shape_[1], shape_[2]);
    into.label = static_cast<int32_t>(draw.next_below(classes_));
    draw_texture(into);
    RandomBytes noise(noise_key_, id);
    const int64_t columns = cells(into.width), rows = cells(into.height);
    uint8_t* pixel = into.pixels.data();
    for (int64_t c = 0; c < into.channels; ++c) {
      for (int64_t y = 0; y < into.height; ++y) {
        const uint8_t* texture = into.spare.data() + (c * rows + y / kCell) * columns;
        if (into.width % kCell == 0) {
          pixel = mix_row(texture, columns, noise, pixel);
          continue;
        }
        for (int64_t x = 0; x < into.width; ++x) {
          *pixel++ = static_cast<uint8_t>((texture[x / kCell] + noise.next()) / 2);
        }
      }
    }
  }

 private:
  static int64_t cells(int64_t pixels) { return (pixels + kCell - 1) / kCell; }

  // A texture's byte and noise of mean 127.5 are averaged.
  static constexpr int64_t kTextureLow = 64, kTextureRange = 128;

  static int64_t mean_around(const Image& image, int64_t y, int64_t x) {
    int64_t sum = 0, count = 0;
    for (int64_t v = std::max<int64_t>(0, y - 1); v <= std::min(image.height - 1, y + 1); ++v) {
      for (int64_t u = std::max<int64_t>(0, x - 1); u <= std::min(image.width - 1, x + 1); ++u, ++count)
        sum += image.pixels[static_cast<size_t>(v * image.width + u)];
    }
    return sum / count;
  }

  /// The means of texture and noise, a cell's four pixels in one word: (a + b) / 2 = (a & b) + (a ^ b) / 2 in
  /// each byte.
  static uint8_t* mix_row(const uint8_t* texture, int64_t cells, RandomBytes& noise, uint8_t* pixel) {
    static_assert(kCell == 4);
    for (int64_t i = 0; i < cells; ++i, pixel += kCell) {
      const uint32_t a = texture[i] * 0x01010101u, b = noise.next_four();
      const uint32_t mean = (a & b) + (((a ^ b) & 0xFEFEFEFEu) >> 1);
      std::memcpy(pixel, &mean, sizeof mean);
    }
    return pixel;
  }

  /// One byte per cell, (C, cells of H, cells of W), into the spare room.
  void draw_texture(Image& image) const {
    image.spare.resize(static_cast<size_t>(image.channels * cells(image.height) * cells(image.width)));
    RandomBytes bytes(texture_key_, static_cast<uint64_t>(image.label));
    for (uint8_t& cell : image.spare) cell = bytes.next();
  }

  Shape shape_;  // (C, H, W)
  int64_t size_, classes_;
  uint64_t label_key_, noise_key_, texture_key_;
  bool has_sets_;
  std::vector<int32_t> label_sets_;  // (classes, 2)
};

}  // namespace

std::unique_ptr<ImageSource> make_synthetic(uint64_t seed, Split split, int64_t size, const Shape& shape,
                                            int64_t classes, bool label_sets) {
  return std::make_unique<SyntheticSource>(seed, split, size, shape, std::max<int64_t>(1, classes),
                                           label_sets);
}

}  // namespace trainer
