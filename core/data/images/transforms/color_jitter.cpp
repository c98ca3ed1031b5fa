// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/data/images/transforms/colour.h"
#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

/// Four adjustments by random amounts, in random order.
class ColorJitter : public Transform {
 public:
  void declare(Fields& fields) override {
    const auto factor = [&](const char* name, double& target) {
      fields.add(name, &target, "b: a factor from max(0, 1 - b) to 1 + b").at_least(0).at_most(100);
    };
    factor("brightness", brightness_);
    factor("contrast", contrast_);
    factor("saturation", saturation_);
    fields.add("hue", &hue_, "h: rotates the hue by -h to h of the full circle").at_least(0).at_most(0.5);
  }
  bool is_random() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::kept; }

  Shape output_shape(const Shape& input, Diagnostics& diagnostics) const override {
    for (const auto& [name, amount] : {std::pair{"saturation", saturation_}, std::pair{"hue", hue_}}) {
      if (amount == 0 || input[0] == 3) continue;
      diagnostics.error(origin_of(name), fmt::format("needs images with 3 channels, got {}", input[0]));
    }
    return input;
  }

  void apply(Image& image, RandomStream& random) const override {
    std::array<int, 4> order = {0, 1, 2, 3};
    for (size_t i = order.size(); i-- > 1;)
      std::swap(order[i], order[static_cast<size_t>(random.next_below(static_cast<int64_t>(i) + 1))]);
    const std::array<double, 4> factors = {draw_factor(brightness_, random), draw_factor(contrast_, random),
                                           draw_factor(saturation_, random),
                                           draw_between(-hue_, hue_, random)};
    for (int which : order) {
      const double amount = factors[static_cast<size_t>(which)];
      if (which == 0 && brightness_ > 0) adjust_brightness(image, amount);
      if (which == 1 && contrast_ > 0) adjust_contrast(image, amount);
      if (which == 2 && saturation_ > 0) adjust_saturation(image, amount);
      if (which == 3 && hue_ > 0) adjust_hue(image, amount);
    }
  }

 private:
  static double draw_between(double low, double high, RandomStream& random) {
    return low + (high - low) * static_cast<double>(random.next_uniform());
  }
  static double draw_factor(double reach, RandomStream& random) {
    return draw_between(std::max(0.0, 1 - reach), 1 + reach, random);
  }

  double brightness_ = 0, contrast_ = 0, saturation_ = 0, hue_ = 0;
};

}  // namespace

std::unique_ptr<Transform> make_color_jitter() {
  return std::make_unique<ColorJitter>();
}

}  // namespace trainer
