// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

/// After DeVries and Taylor, "Improved regularization of convolutional neural networks with cutout" (2017):
/// the square's centre is anywhere in the image, so that parts of it may be outside.
class Cutout : public Transform {
 public:
  void declare(Fields& fields) override {
    fields.add("size", &size_, "side of the square in pixels").at_least(1).at_most(1 << 14).required().bare();
  }
  bool is_random() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::covered; }

  void apply(Image& image, RandomStream& random) const override {
    const int64_t top = random.next_below(image.height) - size_ / 2;
    const int64_t left = random.next_below(image.width) - size_ / 2;
    const int64_t first = std::max<int64_t>(0, left), last = std::min(image.width, left + size_);
    for (int64_t c = 0; c < image.channels; ++c) {
      for (int64_t y = std::max<int64_t>(0, top); y < std::min(image.height, top + size_); ++y) {
        uint8_t* row = image.pixels.data() + (c * image.height + y) * image.width;
        std::fill(row + first, row + last, uint8_t{0});
      }
    }
  }

 private:
  int64_t size_ = 0;
};

}  // namespace

std::unique_ptr<Transform> make_cutout() {
  return std::make_unique<Cutout>();
}

}  // namespace trainer
