// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

/// (x / 255 - mean) / std = x * (1 / (255 std)) - mean / std: one multiplication and one addition per pixel.
class Normalize : public Transform {
 public:
  void declare(Fields& fields) override {
    // Numbers above 1 are the commonest mistake here: statistics of bytes instead of x / 255.
    fields.add("mean", &mean_, "mean of x / 255, for each channel or one for all")
        .at_least(0)
        .at_most(1)
        .required();
    fields.add("std", &std_, "standard deviation of x / 255, for each channel or one for all")
        .above(0)
        .at_most(1)
        .required();
  }
  bool is_terminal() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::kept; }
  void apply(Image&, RandomStream&) const override {}

  Shape output_shape(const Shape& input, Diagnostics& diagnostics) const override {
    check_length("mean", mean_, input[0], diagnostics);
    check_length("std", std_, input[0], diagnostics);
    return input;
  }

  PixelMap pixel_map(int64_t channels) const override {
    PixelMap map;
    for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
      const double mean = mean_[mean_.size() == 1 ? 0 : c], std = std_[std_.size() == 1 ? 0 : c];
      map.scale.push_back(static_cast<float>(1 / (255 * std)));
      map.offset.push_back(static_cast<float>(-mean / std));
    }
    return map;
  }

 private:
  void check_length(const std::string& name, const std::vector<double>& values, int64_t channels,
                    Diagnostics& diagnostics) const {
    const auto length = static_cast<int64_t>(values.size());
    if (length == 1 || length == channels) return;
    const std::string expected = channels == 1 ? "1 number" : fmt::format("1 number or {}", channels);
    diagnostics.error(origin_of(name), fmt::format("must have {}, as the samples have {} channel{}, got {}",
                                                   expected, channels, channels == 1 ? "" : "s", length));
  }

  std::vector<double> mean_, std_;
};

}  // namespace

std::unique_ptr<Transform> make_normalize() {
  return std::make_unique<Normalize>();
}

}  // namespace trainer
