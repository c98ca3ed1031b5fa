// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/pool2d.h"

#include "core/layers/table.h"

namespace trainer {
namespace {

template <class Op>
class Pool2dLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("kernel_size", &kernel_, "height and width of the window").required().dimension(1).bare();
    fields.add("stride", &stride_, "stride of the window; 0: the window's size").dimension(0);
    fields.add("padding", &padding_, "rows and columns added on each side").dimension(0);
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    Conv2dGeometry geometry{.kernel = kernel_, .stride = stride_, .padding = padding_};
    for (size_t d = 0; d < 2; ++d) {
      if (geometry.stride[d] == 0) geometry.stride[d] = kernel_[d];
    }
    return {context.build.emit<Op>({x[0]}, geometry)};
  }

 private:
  Pair kernel_{0, 0}, stride_{0, 0}, padding_{0, 0};
};

class GlobalAvgPool2dLayer final : public Layer {
 public:
  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape in = context.build.shape(x[0]);
    if (in.size() != 4) fail_at(origin, "expected images (N, C, H, W), got shape " + to_string(in));
    return {context.build.emit<AvgPool2d>({x[0]}, Conv2dGeometry{.kernel = {in[2], in[3]}})};
  }
};

}  // namespace

Registered<Layer> max_pool2d_layer() {
  return {"max_pool2d", "max pooling", [] { return std::make_unique<Pool2dLayer<MaxPool2d>>(); }};
}

Registered<Layer> avg_pool2d_layer() {
  return {"avg_pool2d", "average pooling; padding counts as zeros",
          [] { return std::make_unique<Pool2dLayer<AvgPool2d>>(); }};
}

Registered<Layer> global_avg_pool2d_layer() {
  return {"global_avg_pool2d", "global average pooling: (N, C, H, W) to (N, C, 1, 1)",
          [] { return std::make_unique<GlobalAvgPool2dLayer>(); }};
}

}  // namespace trainer
