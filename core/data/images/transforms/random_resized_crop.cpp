// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

/// A window of random area and shape at a random place (Szegedy et al., "Going deeper with convolutions",
/// 2015), drawn as in torchvision. After ten windows that do not fit, the largest central one of an allowed
/// shape is taken.
class RandomResizedCrop : public ViewTransform {
 public:
  void declare(Fields& fields) override {
    fields.add("size", &size_, "side of the square result in pixels, or its height and width")
        .at_least(1)
        .at_most(1 << 14)
        .required()
        .bare();
    fields.add("scale", &scale_, "smallest and largest area of the window, as a fraction of the image's")
        .above(0)
        .at_most(1);
    fields.add("ratio", &ratio_, "smallest and largest width / height of the window").above(0);
  }
  bool is_random() const override { return true; }

  Shape output_shape(const Shape& input, Diagnostics& diagnostics) const override {
    check_range("scale", scale_, diagnostics);
    check_range("ratio", ratio_, diagnostics);
    return {input[0], size_.sides[0], size_.sides[1]};
  }

  View view(int64_t height, int64_t width, RandomStream& random) const override {
    constexpr int kTries = 10;
    const double area = static_cast<double>(height) * static_cast<double>(width);
    for (int i = 0; i < kTries; ++i) {
      const double wanted = area * between(scale_[0], scale_[1], random);
      const double shape = std::exp(between(std::log(ratio_[0]), std::log(ratio_[1]), random));
      const int64_t columns = std::llround(std::sqrt(wanted * shape));
      const int64_t rows = std::llround(std::sqrt(wanted / shape));
      if (rows < 1 || columns < 1 || rows > height || columns > width) continue;
      const int64_t top = random.next_below(height - rows + 1);
      const int64_t left = random.next_below(width - columns + 1);
      return {window(top, rows, 0), window(left, columns, 1)};
    }
    return largest(height, width);
  }

 private:
  static double between(double low, double high, RandomStream& random) {
    return low + (high - low) * static_cast<double>(random.next_uniform());
  }

  AxisView window(int64_t begin, int64_t length, size_t axis) const {
    return {static_cast<double>(begin), static_cast<double>(length), begin, begin + length,
            size_.sides[axis]};
  }

  View largest(int64_t height, int64_t width) const {
    const double shape =
        std::clamp(static_cast<double>(width) / static_cast<double>(height), ratio_[0], ratio_[1]);
    const int64_t rows = std::clamp<int64_t>(std::llround(static_cast<double>(width) / shape), 1, height);
    const int64_t columns = std::clamp<int64_t>(std::llround(static_cast<double>(height) * shape), 1, width);
    return {window((height - rows) / 2, rows, 0), window((width - columns) / 2, columns, 1)};
  }

  void check_range(const std::string& name, const std::vector<double>& range,
                   Diagnostics& diagnostics) const {
    if (range.size() == 2 && range[0] <= range[1]) return;
    diagnostics.error(origin_of(name), fmt::format("must be two numbers, the smaller first, got [{}]",
                                                   fmt::join(range, ", ")));
  }

  SideOrPair size_{.sides = {224, 224}};
  std::vector<double> scale_{0.08, 1.0}, ratio_{3.0 / 4, 4.0 / 3};
};

}  // namespace

std::unique_ptr<Transform> make_random_resized_crop() {
  return std::make_unique<RandomResizedCrop>();
}

}  // namespace trainer
