// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

class CenterCrop : public ViewTransform {
 public:
  void declare(Fields& fields) override {
    fields.add("size", &size_, "height and width of the window").at_least(1).required().bare();
  }
  bool only_cuts() const override { return true; }

  Shape output_shape(const Shape& input, Diagnostics& diagnostics) const override {
    const int64_t least = std::min(std::abs(input[1]), std::abs(input[2]));
    if (size_ > least) {
      diagnostics.error(
          origin_of("size"),
          is_fixed(input) || least > 1
              ? fmt::format("must be at most {}, the images' shorter side, got {}", least, size_)
              : "needs images of a known size, but their sizes differ; put resize before it");
    }
    return {input[0], size_, size_};
  }

  View view(int64_t height, int64_t width, RandomStream&) const override {
    return {middle(height), middle(width)};
  }

 private:
  AxisView middle(int64_t side) const {
    const int64_t half = (side - size_) / 2, odd = (side - size_) % 2;
    const int64_t begin = half + odd * (half % 2);  // halves to even, as torchvision rounds
    return {static_cast<double>(begin), static_cast<double>(size_), begin, begin + size_, size_};
  }

  int64_t size_ = 224;
};

}  // namespace

std::unique_ptr<Transform> make_center_crop() {
  return std::make_unique<CenterCrop>();
}

}  // namespace trainer
