// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/conv2d.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/layers/initializer.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

class Conv2dLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("out_channels", &out_channels_, "channels of the output").required().dimension(1);
    fields.add("kernel_size", &geometry_.kernel, "height and width of the kernel").required().dimension(1);
    fields.add("stride", &geometry_.stride, "stride of the convolution").dimension(1);
    fields.add("padding", &geometry_.padding, "zeros added on each side").dimension(0);
    fields.add("dilation", &geometry_.dilation, "spacing between kernel elements").dimension(1);
    fields.add("groups", &geometry_.groups, "groups of channels that are convolved separately").dimension(1);
    fields.add("bias", &bias_, "add a learned bias to each output channel");
    initializer_.declare(fields);
  }

  const char* width_key() const override { return "out_channels"; }

  LayerKeys keys_for(const LayerSizes&, const LayerSizes& after) const override {
    const int64_t of_group = after.parameters.at("weight")[1];
    return {{"out_channels", std::to_string(after.output[1])},
            {"groups", std::to_string(after.input[1] / of_group)}};
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape in = context.build.shape(x[0]);
    const int64_t channels = in.size() == 4 ? in[1] : 0;
    const int64_t groups = geometry_.groups;
    if (in.size() == 4 && (channels % groups != 0 || out_channels_ % groups != 0)) {
      fail_at(origin_of("groups"), fmt::format("must divide {} input channels and {} output channels, got {}",
                                               channels, out_channels_, groups));
    }
    const Size2d kernel = geometry_.kernel;
    const int64_t fan_in = std::max<int64_t>(1, numel({channels / groups, kernel[0], kernel[1]}));
    const int64_t fan_out = numel({out_channels_, kernel[0], kernel[1]});
    const TensorId w = context.parameter("weight", {out_channels_, channels / groups, kernel[0], kernel[1]},
                                         initializer_.weight(fan_in, fan_out));
    const TensorId b = bias_ ? context.parameter("bias", {out_channels_}, initializer_.bias(fan_in)) : kNone;
    return {context.build.emit<Conv2d>({x[0], w, b}, geometry_)};
  }

 private:
  int64_t out_channels_ = 0;
  Conv2dGeometry geometry_;
  bool bias_ = true;
  Initializer initializer_;
};

}  // namespace

Registered<Layer> conv2d_layer() {
  return {"conv2d", "2-D convolution, as PyTorch's Conv2d", [] { return std::make_unique<Conv2dLayer>(); }};
}

}  // namespace trainer
