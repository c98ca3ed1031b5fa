// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/resample2d.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

Size2d image_sizes(const Layer& layer, const Shape& x) {
  if (x.size() != 4) fail_at(layer.origin, "expected images (N, C, H, W), got shape " + to_string(x));
  return {x[2], x[3]};
}

class UpsampleLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("scale", &scale_, "factor for height and width").required().dimension(1).bare();
    fields.add("mode", &mode_, "nearest neighbour, or bilinear interpolation")
        .one_of({"nearest", "bilinear"});
    fields.add("align_corners", &align_corners_,
               "bilinear: align the centres of the corner pixels instead of the edges");
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Size2d in = image_sizes(*this, context.build.shape(x[0]));
    if (align_corners_ && mode_ != "bilinear") {
      fail_at(origin_of("align_corners"), "requires mode: bilinear, got mode: " + mode_);
    }
    const Resampling how = mode_ == "nearest" ? Resampling::nearest
                           : align_corners_   ? Resampling::bilinear_aligned
                                              : Resampling::bilinear;
    return {context.build.emit<Resample2d>({x[0]}, how, Size2d{in[0] * scale_[0], in[1] * scale_[1]})};
  }

 private:
  Pair scale_{1, 1};
  std::string mode_ = "nearest";
  bool align_corners_ = false;
};

/// If windows are of one size it is a plain average pool, for which there are faster kernels.
class AdaptiveAvgPool2dLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("output_size", &output_, "height and width of the output").required().dimension(1).bare();
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Size2d in = image_sizes(*this, context.build.shape(x[0]));
    if (in[0] % output_[0] != 0 || in[1] % output_[1] != 0) {
      return {context.build.emit<Resample2d>({x[0]}, Resampling::average, output_)};
    }
    const Size2d window{in[0] / output_[0], in[1] / output_[1]};
    return {context.build.emit<AvgPool2d>({x[0]}, Conv2dGeometry{.kernel = window, .stride = window})};
  }

 private:
  Pair output_{1, 1};
};

}  // namespace

Registered<Layer> upsample_layer() {
  return {"upsample", "enlarges images, as PyTorch's Upsample",
          [] { return std::make_unique<UpsampleLayer>(); }};
}

Registered<Layer> adaptive_avg_pool2d_layer() {
  return {"adaptive_avg_pool2d", "adaptive average pooling to a given output size",
          [] { return std::make_unique<AdaptiveAvgPool2dLayer>(); }};
}

}  // namespace trainer
