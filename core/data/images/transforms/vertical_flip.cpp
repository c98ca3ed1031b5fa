// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

class VerticalFlip : public Transform {
 public:
  void declare(Fields& fields) override {
    fields.add("p", &p_, "probability of a flip").at_least(0).at_most(1).bare();
  }
  bool is_random() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::moved; }

  void apply(Image& image, RandomStream& random) const override {
    if (static_cast<double>(random.next_uniform()) >= p_) return;
    for (int64_t c = 0; c < image.channels; ++c)
      flip(image.pixels.data() + c * image.height * image.width, image.height, image.width);
    if (!image.mask.empty()) flip(image.mask.data(), image.height, image.width);
  }

 private:
  static void flip(uint8_t* plane, int64_t height, int64_t width) {
    for (int64_t y = 0; y < height / 2; ++y)
      std::swap_ranges(plane + y * width, plane + (y + 1) * width, plane + (height - 1 - y) * width);
  }

  double p_ = 0.5;
};

}  // namespace

std::unique_ptr<Transform> make_vertical_flip() {
  return std::make_unique<VerticalFlip>();
}

}  // namespace trainer
