// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/channels.h"
#include "core/graph/ops/conv2d.h"
#include "core/layers/initializer.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

/// The transpose of a convolution from out_channels to the input's channels: its gradient with respect to the
/// data, so it needs no operation of its own. w (C, out_channels / groups, kh, kw), as PyTorch's.
class ConvTranspose2dLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("out_channels", &out_channels_, "channels of the output").required().dimension(1);
    fields.add("kernel_size", &geometry_.kernel, "height and width of the kernel").required().dimension(1);
    fields.add("stride", &geometry_.stride, "stride of the convolution, in pixels of the output")
        .dimension(1);
    fields.add("padding", &geometry_.padding, "rows and columns to remove from each side of the output")
        .dimension(0);
    fields
        .add("output_padding", &output_padding_,
             "rows and columns to add at the end of the output; must be smaller than the stride")
        .dimension(0);
    fields.add("dilation", &geometry_.dilation, "spacing between kernel elements").dimension(1);
    fields.add("groups", &geometry_.groups, "groups of channels that are convolved separately").dimension(1);
    fields.add("bias", &bias_, "add a learned bias to each output channel");
    initializer_.declare(fields);
  }

  const char* width_key() const override { return "out_channels"; }

  LayerKeys keys_for(const LayerSizes&, const LayerSizes& after) const override {
    const int64_t of_group = after.parameters.at("weight")[1];
    return {{"out_channels", std::to_string(after.output[1])},
            {"groups", std::to_string(after.output[1] / of_group)}};
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape in = context.build.shape(x[0]);
    if (in.size() != 4) fail_at(origin, "expected images (N, C, H, W), got shape " + to_string(in));
    const int64_t groups = geometry_.groups, of_group = out_channels_ / groups;
    if (in[1] % groups != 0 || out_channels_ % groups != 0) {
      fail_at(origin_of("groups"), fmt::format("must divide {} input channels and {} output channels, got {}",
                                               in[1], out_channels_, groups));
    }
    const Size2d kernel = geometry_.kernel;
    // PyTorch's fan-in is the number of weights of one output channel of a group.
    const int64_t fan_in = numel({of_group, kernel[0], kernel[1]});
    const int64_t fan_out = numel({in[1], kernel[0], kernel[1]});
    const TensorId w = context.parameter("weight", {in[1], of_group, kernel[0], kernel[1]},
                                         initializer_.weight(fan_in, fan_out));
    const TensorId y = context.build.emit<Conv2dBackwardData>({x[0], w}, geometry_, output_shape(in));
    if (!bias_) return {y};
    return {context.build.emit<AddChannels>(
        {y, context.parameter("bias", {out_channels_}, initializer_.bias(fan_in))})};
  }

 private:
  Shape output_shape(const Shape& in) const {
    Shape out{in[0], out_channels_, 0, 0};
    for (size_t d = 0; d < 2; ++d) {
      if (output_padding_[d] >= geometry_.stride[d]) {
        fail_at(origin_of("output_padding"),
                fmt::format("must be less than stride {}, got {}", geometry_.stride[d], output_padding_[d]));
      }
      out[d + 2] = (in[d + 2] - 1) * geometry_.stride[d] - 2 * geometry_.padding[d] +
                   geometry_.dilation[d] * (geometry_.kernel[d] - 1) + output_padding_[d] + 1;
    }
    if (out[2] < 1 || out[3] < 1) {
      fail_at(
          origin_of("padding"),
          fmt::format("{}x{} leaves nothing of a {}x{} output", geometry_.padding[0], geometry_.padding[1],
                      out[2] + 2 * geometry_.padding[0], out[3] + 2 * geometry_.padding[1]));
    }
    require_addressable(out);
    return out;
  }

  int64_t out_channels_ = 0;
  Conv2dGeometry geometry_;
  Pair output_padding_{0, 0};
  bool bias_ = true;
  Initializer initializer_;
};

}  // namespace

Registered<Layer> conv_transpose2d_layer() {
  return {"conv_transpose2d", "transposed 2-D convolution, as PyTorch's ConvTranspose2d",
          [] { return std::make_unique<ConvTranspose2dLayer>(); }};
}

}  // namespace trainer
