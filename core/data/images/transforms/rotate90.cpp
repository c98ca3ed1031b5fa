// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

/// To the left, as numpy.rot90 does it. All images of a batch have one size, so one that is not square is
/// turned by 180 degrees or not at all.
class Rotate90 : public Transform {
 public:
  void declare(Fields&) override {}
  bool is_random() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::moved; }

  void apply(Image& image, RandomStream& random) const override {
    const bool is_square = image.height == image.width;
    const int64_t turns = is_square ? random.next_below(4) : 2 * random.next_below(2);
    const int64_t plane = image.height * image.width;
    for (int64_t c = 0; c < image.channels; ++c)
      rotate(image.pixels.data() + c * plane, image.height, image.width, turns);
    if (!image.mask.empty()) rotate(image.mask.data(), image.height, image.width, turns);
  }

 private:
  static void rotate(uint8_t* pixels, int64_t height, int64_t width, int64_t turns) {
    if (turns == 2) std::reverse(pixels, pixels + height * width);
    if (turns % 2 == 1) turn(pixels, height, turns == 1);
  }

  /// To the left pixel (y, x) becomes (size - 1 - x, y), to the right (x, size - 1 - y): rows become columns,
  /// and then one of them is mirrored.
  static void turn(uint8_t* pixels, int64_t size, bool is_left) {
    for (int64_t y = 0; y < size; ++y) {
      for (int64_t x = 0; x < y; ++x) std::swap(pixels[y * size + x], pixels[x * size + y]);
    }
    for (int64_t y = 0; y < size; ++y) {
      uint8_t* row = pixels + y * size;
      if (!is_left) std::reverse(row, row + size);
      if (is_left && y < size / 2) std::swap_ranges(row, row + size, pixels + (size - 1 - y) * size);
    }
  }
};

}  // namespace

std::unique_ptr<Transform> make_rotate90() {
  return std::make_unique<Rotate90>();
}

}  // namespace trainer
