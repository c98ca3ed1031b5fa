// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

/// Zhong et al., "Random erasing data augmentation" (2020). The rectangle is drawn as torchvision does: at
/// most ten times; if none is smaller than the image in both directions, the image stays.
class RandomErasing : public Transform {
 public:
  void declare(Fields& fields) override {
    fields.add("p", &p_, "probability of erasing").at_least(0).at_most(1).bare();
    fields.add("scale", &scale_, "smallest and largest area of the rectangle, as a fraction of the image's")
        .at_least(0)
        .at_most(1);
    fields.add("ratio", &ratio_, "smallest and largest height / width of the rectangle").above(0);
    fields.add("value", &value_, "pixel value of the rectangle, per channel or one for all")
        .at_least(0)
        .at_most(255);
    fields.add("noise", &noise_, "fill the rectangle with random pixels instead of `value`");
  }
  bool is_random() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::covered; }

  Shape output_shape(const Shape& input, Diagnostics& diagnostics) const override {
    check_limits("scale", scale_, diagnostics);
    check_limits("ratio", ratio_, diagnostics);
    const auto count = static_cast<int64_t>(value_.size());
    if (count != 1 && count != input[0]) {
      diagnostics.error(origin_of("value"),
                        fmt::format("must have 1 number or one per channel of the samples, "
                                    "{}, got {}",
                                    input[0], count));
    }
    return input;
  }

  void apply(Image& image, RandomStream& random) const override {
    if (static_cast<double>(random.next_uniform()) >= p_) return;
    constexpr int kTries = 10;
    const auto area = static_cast<double>(image.height * image.width);
    for (int i = 0; i < kTries; ++i) {
      const double wanted = area * drawn(scale_[0], scale_[1], random);
      const double shape = std::exp(drawn(std::log(ratio_[0]), std::log(ratio_[1]), random));
      const int64_t rows = std::llrint(std::sqrt(wanted * shape));
      const int64_t columns = std::llrint(std::sqrt(wanted / shape));
      if (rows >= image.height || columns >= image.width) continue;
      const int64_t top = random.next_below(image.height - rows + 1);
      const int64_t left = random.next_below(image.width - columns + 1);
      return erase(image, top, left, rows, columns, random);
    }
  }

 private:
  static double drawn(double low, double high, RandomStream& random) {
    return low + (high - low) * static_cast<double>(random.next_uniform());
  }

  void erase(Image& image, int64_t top, int64_t left, int64_t rows, int64_t columns,
             RandomStream& random) const {
    for (int64_t c = 0; c < image.channels; ++c) {
      const double value = value_[value_.size() == 1 ? 0 : static_cast<size_t>(c)];
      for (int64_t y = top; y < top + rows; ++y) {
        uint8_t* first = image.pixels.data() + (c * image.height + y) * image.width + left;
        if (noise_) {
          std::generate_n(first, columns, [&] { return static_cast<uint8_t>(random.next_below(256)); });
        } else {
          std::fill_n(first, columns, static_cast<uint8_t>(value));
        }
      }
    }
  }

  void check_limits(const std::string& name, const std::vector<double>& limits,
                    Diagnostics& diagnostics) const {
    if (limits.size() == 2 && limits[0] <= limits[1]) return;
    diagnostics.error(origin_of(name), fmt::format("must be two numbers, the smaller first, got [{}]",
                                                   fmt::join(limits, ", ")));
  }

  double p_ = 0.5;
  std::vector<double> scale_{0.02, 0.33}, ratio_{0.3, 3.3}, value_{0};
  bool noise_ = false;
};

}  // namespace

std::unique_ptr<Transform> make_random_erasing() {
  return std::make_unique<RandomErasing>();
}

}  // namespace trainer
