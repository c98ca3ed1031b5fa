// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

/// At the head of a list the source applies it to the stored values; elsewhere it would get bytes.
class Window : public Transform {
 public:
  void declare(Fields& fields) override {
    fields.add("from", &window_.from, "stored value that becomes black").required();
    fields.add("to", &window_.to, "stored value that becomes white").required();
  }

  Shape output_shape(const Shape& input, Diagnostics& diagnostics) const override {
    if (!(window_.from < window_.to))
      diagnostics.error(origin_of("to"),
                        fmt::format("must be above `from`, {}, got {}", window_.from, window_.to));
    return input;
  }

  const PixelWindow* pixel_window() const override { return &window_; }
  MaskEffect mask_effect() const override { return MaskEffect::kept; }
  void apply(Image& image, RandomStream&) const override { window_.apply(image); }

 private:
  PixelWindow window_;
};

}  // namespace

std::unique_ptr<Transform> make_window() {
  return std::make_unique<Window>();
}

}  // namespace trainer
