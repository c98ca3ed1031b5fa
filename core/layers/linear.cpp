// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/linear.h"

#include "core/layers/initializer.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

class LinearLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("out_features", &out_features_, "features of the output").required().extent(1).bare();
    fields.add("bias", &bias_, "add a learned bias to each output feature");
    initializer_.declare(fields);
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const int64_t in = context.build.shape(x[0]).back();
    const TensorId w =
        context.parameter("weight", {out_features_, in}, initializer_.weight(in, out_features_));
    const TensorId b = bias_ ? context.parameter("bias", {out_features_}, initializer_.bias(in)) : kNone;
    return {context.build.emit<Linear>({x[0], w, b})};
  }

 private:
  int64_t out_features_ = 0;
  bool bias_ = true;
  Initializer initializer_;
};

}  // namespace

Registered<Layer> linear_layer() {
  return {"linear", "y = x wT + bias over the last extent, as PyTorch's Linear",
          [] { return std::make_unique<LinearLayer>(); }};
}

}  // namespace trainer
