// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

class Resize : public ViewTransform {
 public:
  void declare(Fields& fields) override {
    fields.add("size", &size_, "shorter side of the result, in pixels, or its height and width")
        .at_least(1)
        .at_most(1 << 14)
        .required()
        .bare();
  }

  Shape output_shape(const Shape& input, Diagnostics&) const override {
    if (size_.is_pair) return {input[0], size_.sides[0], size_.sides[1]};
    if (!is_fixed(input)) return {input[0], -size_.sides[0], -size_.sides[0]};
    return {input[0], scaled(input[1], input[2]), scaled(input[2], input[1])};
  }

  View view(int64_t height, int64_t width, RandomStream&) const override {
    View view = View::whole(height, width);
    view.y.out = size_.is_pair ? size_.sides[0] : scaled(height, width);
    view.x.out = size_.is_pair ? size_.sides[1] : scaled(width, height);
    return view;
  }

 private:
  /// The shorter side becomes size; the other one is rounded down, as torchvision does.
  int64_t scaled(int64_t side, int64_t other) const {
    const int64_t shorter = size_.sides[0];
    return side <= other ? shorter : std::max(shorter, shorter * side / other);
  }

  SideOrPair size_{.sides = {256, 256}};
};

}  // namespace

std::unique_ptr<Transform> make_resize() {
  return std::make_unique<Resize>();
}

}  // namespace trainer
