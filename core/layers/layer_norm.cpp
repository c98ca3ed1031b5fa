// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/layer_norm.h"

#include "core/layers/table.h"

namespace trainer {
namespace {

class LayerNormLayer final : public Layer {
 public:
  explicit LayerNormLayer(bool rms) : rms_(rms), eps_(rms ? 1e-6 : 1e-5), bias_(!rms) {}

  void declare_parameters(Fields& fields) override {
    fields.add("eps", &eps_, rms_ ? "added to the mean of the squares" : "added to the variance").above(0);
    fields.add("elementwise_affine", &affine_, "multiply each feature by a learned weight");
    if (!rms_) fields.add("bias", &bias_, "add a learned bias to each feature, if there are weights");
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape features{context.build.shape(x[0]).back()};
    auto filled = [&](const char* suffix, double value) {
      return context.parameter(suffix, features,
                               {.kind = Initial::Kind::fill, .a = value, .b = 0, .table = {}});
    };
    const TensorId gamma = affine_ ? filled("weight", 1) : kNone;
    const TensorId beta = affine_ && bias_ ? filled("bias", 0) : kNone;
    return {context.build.emit<LayerNorm>({x[0], gamma, beta, kNone}, eps_, rms_)};
  }

 private:
  bool rms_;
  double eps_;
  bool affine_ = true, bias_;
};

}  // namespace

Registered<Layer> layer_norm_layer() {
  return {"layer_norm", "normalise each row over the last dimension, as PyTorch's LayerNorm",
          [] { return std::make_unique<LayerNormLayer>(false); }};
}

Registered<Layer> rms_norm_layer() {
  return {"rms_norm", "divide each row by its root mean square over the last dimension, as PyTorch's RMSNorm",
          [] { return std::make_unique<LayerNormLayer>(true); }};
}

}  // namespace trainer
