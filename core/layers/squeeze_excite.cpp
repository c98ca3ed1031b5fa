// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "core/graph/ops/channels.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/unary.h"
#include "core/layers/initializer.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

/// y = x * gate(fc2(activation(fc1(mean of each channel)))) (Hu, Shen, Sun, "Squeeze-and-Excitation
/// Networks", CVPR 2018); parameters are named as in torchvision's SqueezeExcitation.
class SqueezeExciteLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("squeeze_channels", &squeeze_channels_, "channels between its two convolutions").dimension(1);
    fields
        .add("ratio", &ratio_,
             "reduction ratio, instead of squeeze_channels: input channels divided by it; default: 16")
        .dimension(1);
    fields.add("activation", &activation_, "activation between the two convolutions")
        .one_of(function_names());
    fields.add("gate", &gate_, "activation that computes the factors").one_of(function_names());
    initializer_.declare(fields);
  }

  LayerKeys keys_for(const LayerSizes&, const LayerSizes& after) const override {
    return {{"squeeze_channels", std::to_string(after.parameters.at("fc1.weight")[0])}, {"ratio", "null"}};
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape in = context.build.shape(x[0]);
    if (in.size() != 4) fail_at(origin, "expected images (N, C, H, W), got shape " + to_string(in));
    if (squeeze_channels_ && ratio_) {
      fail_at(origin_of("ratio"), "conflicts with squeeze_channels; keep one of them");
    }
    const int64_t squeezed = squeeze_channels_.value_or(std::max<int64_t>(1, in[1] / ratio_.value_or(16)));
    TensorId s = context.build.emit<AvgPool2d>({x[0]}, Conv2dGeometry{.kernel = {in[2], in[3]}});
    s = context.build.emit<Unary>({dense(context, "fc1", s, squeezed)}, function_named(activation_));
    s = context.build.emit<Unary>({dense(context, "fc2", s, in[1])}, function_named(gate_));
    return {context.build.emit<ScaleChannels>({x[0], s})};
  }

 private:
  TensorId dense(LayerContext& context, const std::string& part, TensorId x, int64_t out) const {
    const int64_t in = context.build.shape(x)[1];
    const TensorId w = context.parameter(part + ".weight", {out, in, 1, 1}, initializer_.weight(in, out));
    const TensorId b = context.parameter(part + ".bias", {out}, initializer_.bias(in));
    return context.build.emit<Conv2d>({x, w, b}, Conv2dGeometry{});
  }

  std::optional<int64_t> squeeze_channels_, ratio_;
  std::string activation_ = "relu", gate_ = "sigmoid";
  Initializer initializer_;
};

}  // namespace

Registered<Layer> squeeze_excite_layer() {
  return {"squeeze_excite",
          "squeeze-and-excitation: scales each channel by a factor computed from the channel means by two "
          "1x1 convolutions",
          [] { return std::make_unique<SqueezeExciteLayer>(); }};
}

}  // namespace trainer
