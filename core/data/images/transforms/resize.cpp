// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

class Resize : public ViewTransform {
 public:
  void declare(Fields& fields) override {
    fields.add("size", &size_, "shorter side of the result, in pixels")
        .at_least(1)
        .at_most(1 << 14)
        .required()
        .bare();
  }

  Shape output_shape(const Shape& input, Diagnostics&) const override {
    if (!is_fixed(input)) return {input[0], -size_, -size_};
    return {input[0], scaled(input[1], input[2]), scaled(input[2], input[1])};
  }

  View view(int64_t height, int64_t width, RandomStream&) const override {
    View view = View::whole(height, width);
    view.y.out = scaled(height, width);
    view.x.out = scaled(width, height);
    return view;
  }

 private:
  /// The shorter side becomes size; the other one is rounded down, as torchvision does.
  int64_t scaled(int64_t side, int64_t other) const {
    return side <= other ? size_ : std::max(size_, size_ * side / other);
  }

  int64_t size_ = 256;
};

}  // namespace

std::unique_ptr<Transform> make_resize() {
  return std::make_unique<Resize>();
}

}  // namespace trainer
