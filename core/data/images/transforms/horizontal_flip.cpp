// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

class HorizontalFlip : public Transform {
 public:
  void declare(Fields& fields) override {
    fields.add("p", &p_, "probability of a flip").at_least(0).at_most(1).bare();
  }
  bool is_random() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::moved; }

  std::optional<SampleStep> device_step(const Shape&) const override {
    return SampleStep{.mirrors = true, .p = p_};
  }

  void apply(Image& image, RandomStream& random) const override {
    if (static_cast<double>(random.next_uniform()) >= p_) return;
    uint8_t* row = image.pixels.data();
    for (int64_t y = 0; y < image.channels * image.height; ++y, row += image.width) {
      std::reverse(row, row + image.width);
    }
    for (auto at = image.mask.begin(); at != image.mask.end(); at += image.width)
      std::reverse(at, at + image.width);
  }

 private:
  double p_ = 0.5;
};

}  // namespace

std::unique_ptr<Transform> make_horizontal_flip() {
  return std::make_unique<HorizontalFlip>();
}

}  // namespace trainer
