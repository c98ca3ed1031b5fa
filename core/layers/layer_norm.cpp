// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/layer_norm.h"

#include <fmt/format.h>

#include "core/graph/ops/reshape.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

class LayerNormLayer final : public Layer {
 public:
  explicit LayerNormLayer(bool rms) : rms_(rms), eps_(rms ? 1e-6 : 1e-5), bias_(!rms) {}

  void declare_parameters(Fields& fields) override {
    fields
        .add("eps", &eps_,
             rms_ ? "added to the mean square for numerical stability"
                  : "added to the variance for numerical stability")
        .above(0);
    fields.add("elementwise_affine", &affine_, "multiply each feature by a learned weight");
    fields
        .add("heads", &heads_,
             "normalise each of this many heads by itself, with one weight for all, as Qwen3's q_norm and "
             "k_norm")
        .dimension(1)
        .absent_as("1");
    if (!rms_) fields.add("bias", &bias_, "add a learned bias to each feature, if there are weights");
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape in = context.build.shape(x[0]);
    if (in.size() > 3) {
      fail_at(origin,
              fmt::format("expected features (N, K) or (N, T, K), got shape {}; images are normalised by "
                          "`group_norm`, `instance_norm` or `batch_norm`",
                          to_string(in)));
    }
    if (in.back() % heads_ != 0)
      fail_at(origin_of("heads"), fmt::format("must divide {} features, got {}", in.back(), heads_));
    if (heads_ == 1) return {normalized(context, x[0])};
    Shape by_head = in;
    by_head.back() /= heads_;
    by_head.insert(by_head.end() - 1, heads_);
    const TensorId y = normalized(context, context.build.emit<Reshape>({x[0]}, by_head));
    return {context.build.emit<Reshape>({y}, in)};
  }

 private:
  TensorId normalized(LayerContext& context, TensorId x) const {
    const Shape features{context.build.shape(x).back()};
    auto filled = [&](const char* suffix, double value) {
      return context.parameter(suffix, features,
                               {.kind = Initial::Kind::fill, .a = value, .b = 0, .table = {}});
    };
    const TensorId gamma = affine_ ? filled("weight", 1) : kNone;
    const TensorId beta = affine_ && bias_ ? filled("bias", 0) : kNone;
    return context.build.emit<LayerNorm>({x, gamma, beta, kNone}, eps_, rms_);
  }

  bool rms_;
  double eps_;
  bool affine_ = true, bias_;
  int64_t heads_ = 1;
};

}  // namespace

Registered<Layer> layer_norm_layer() {
  return {"layer_norm", "layer normalisation over the last dimension, as PyTorch's LayerNorm",
          [] { return std::make_unique<LayerNormLayer>(false); }};
}

Registered<Layer> rms_norm_layer() {
  return {"rms_norm", "divides the last dimension by its root mean square, as PyTorch's RMSNorm",
          [] { return std::make_unique<LayerNormLayer>(true); }};
}

}  // namespace trainer
