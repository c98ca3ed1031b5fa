// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

class RandomCrop : public Transform {
 public:
  void declare(Fields& fields) override {
    fields.add("padding", &padding_, "zeros added on every side, in pixels").at_least(0).at_most(1 << 12);
    fields.add("size", &size_, "height and width of the window; null: the size before padding")
        .at_least(1)
        .at_most(1 << 14);
  }
  bool is_random() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::moved; }

  Shape output_shape(const Shape& input, Diagnostics& diagnostics) const override {
    if (!size_) return input;
    const int64_t most = std::min(input[1], input[2]) + 2 * padding_;
    if (*size_ > most) {
      diagnostics.error(origin_of("size"),
                        fmt::format("must be at most {}, the padded size, got {}", most, *size_));
    }
    return {input[0], *size_, *size_};
  }

  std::optional<SampleStep> device_step(const Shape& input) const override {
    return SampleStep{
        .padding = padding_, .height = size_.value_or(input[1]), .width = size_.value_or(input[2])};
  }

  void apply(Image& image, RandomStream& random) const override {
    const int64_t height = size_.value_or(image.height), width = size_.value_or(image.width);
    // Place of the window in the image without its padding; negative inside the padding.
    const int64_t top = random.next_below(image.height + 2 * padding_ - height + 1) - padding_;
    const int64_t left = random.next_below(image.width + 2 * padding_ - width + 1) - padding_;
    const int64_t first = std::clamp<int64_t>(-left, 0, width);  // columns [first, last) come from the image
    const int64_t last = std::clamp<int64_t>(image.width - left, first, width);
    image.spare.assign(static_cast<size_t>(image.channels * height * width), 0);
    for (int64_t c = 0; c < image.channels; ++c) {
      const int64_t end = std::min(height, image.height - top);
      for (int64_t y = std::max<int64_t>(0, -top); y < end && first < last; ++y) {
        const uint8_t* src = image.pixels.data() + (c * image.height + top + y) * image.width + left + first;
        std::memcpy(image.spare.data() + (c * height + y) * width + first, src,
                    static_cast<size_t>(last - first));
      }
    }
    if (!image.mask.empty()) cut_mask(image, top, left, height, width);
    std::swap(image.pixels, image.spare);
    image.height = height;
    image.width = width;
  }

 private:
  static void cut_mask(Image& image, int64_t top, int64_t left, int64_t height, int64_t width) {
    image.spare_mask.assign(static_cast<size_t>(height * width), image.mask_padding);
    const int64_t first = std::max<int64_t>(0, -left), last = std::min(width, image.width - left);
    const int64_t end = std::min(height, image.height - top);
    for (int64_t y = std::max<int64_t>(0, -top); y < end && first < last; ++y) {
      const uint8_t* src = image.mask.data() + (top + y) * image.width + left;
      std::copy(src + first, src + last, image.spare_mask.data() + y * width + first);
    }
    std::swap(image.mask, image.spare_mask);
  }

  int64_t padding_ = 2;
  std::optional<int64_t> size_;
};

}  // namespace

std::unique_ptr<Transform> make_random_crop() {
  return std::make_unique<RandomCrop>();
}

}  // namespace trainer
