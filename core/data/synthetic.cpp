// SPDX-License-Identifier: Apache-2.0
#include "core/data/synthetic.h"

#include "core/base/rng.h"

namespace trainer {
namespace {

/// The bytes of a run of Philox blocks, one at a time.
class RandomBytes {
 public:
  RandomBytes(uint64_t key, uint64_t id)
      : stream_(key, static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32)) {}

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

// Textures are constant over cells of this many pixels, so that a crop shifted by a pixel or two, or a
// convolution, still finds most of them.
constexpr int64_t kCell = 4;

class SyntheticSource : public DataSource {
 public:
  SyntheticSource(uint64_t seed, Split split, int64_t size, Shape shape, int64_t classes)
      : shape_(std::move(shape)),
        size_(size),
        classes_(classes),
        label_key_(random_key(seed, split == Split::train ? "synthetic train label" : "synthetic val label")),
        noise_key_(random_key(seed, split == Split::train ? "synthetic train noise" : "synthetic val noise")),
        texture_key_(random_key(seed, "synthetic texture")) {}

  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return shape_; }
  int64_t classes() const override { return classes_; }
  int64_t resident_bytes() const override { return 0; }
  void check_labels(int64_t) const override {}

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
        for (int64_t x = 0; x < into.width; ++x) {
          *pixel++ = static_cast<uint8_t>((texture[x / kCell] + noise.next()) / 2);
        }
      }
    }
  }

 private:
  static int64_t cells(int64_t pixels) { return (pixels + kCell - 1) / kCell; }

  /// One byte per cell, (C, cells of H, cells of W), into the spare room.
  void draw_texture(Image& image) const {
    image.spare.resize(static_cast<size_t>(image.channels * cells(image.height) * cells(image.width)));
    RandomBytes bytes(texture_key_, static_cast<uint64_t>(image.label));
    for (uint8_t& cell : image.spare) cell = bytes.next();
  }

  Shape shape_;  // (C, H, W)
  int64_t size_, classes_;
  uint64_t label_key_, noise_key_, texture_key_;
};

}  // namespace

std::unique_ptr<DataSource> make_synthetic(uint64_t seed, Split split, int64_t size, const Shape& shape,
                                           int64_t classes) {
  return std::make_unique<SyntheticSource>(seed, split, size, shape, classes);
}

}  // namespace trainer
