// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"

#include <fmt/format.h>

#include "core/graph/ops/lerp.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

class BatchNormLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("eps", &eps_, "added to the variance for numerical stability").above(0);
    fields.add("momentum", &momentum_, "weight of the current batch in the running statistics")
        .at_least(0)
        .at_most(1);
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape in = context.build.shape(x[0]);
    if (in.size() != 4) fail_at(origin, "expected images (N, C, H, W), got shape " + to_string(in));
    const Shape channels{in[1]};
    const TensorId gamma = context.parameter("weight", channels, constant(1));
    const TensorId beta = context.parameter("bias", channels, constant(0));
    const TensorId mean = state(context, "running_mean", channels, 0);
    const TensorId variance = state(context, "running_var", channels, 1);
    if (!context.training || context.given_statistics || has_fixed_statistics(context))
      return {context.build.emit<BatchNormInference>({x[0], gamma, beta, mean, variance}, eps_)};
    const std::vector<TensorId> y =
        context.build.emit_all(std::make_shared<BatchNorm>(eps_), {x[0], gamma, beta, kNone});
    const int64_t count = numel(in) / in[1];
    const auto values = static_cast<double>(count);
    context.build.assign(mean, context.build.emit<Lerp>({mean, y[BatchNorm::kMean]}, momentum_));
    // As in PyTorch the running variance is the unbiased one.
    context.build.assign(variance, context.build.emit<Lerp>({variance, y[BatchNorm::kVariance]}, momentum_,
                                                            values / (values - 1)));
    return {y[BatchNorm::kY]};
  }

 private:
  /// Evaluation uses the frozen statistics too, so that the frozen layer is the same function in both.
  bool has_fixed_statistics(const LayerContext& context) const {
    const bool mean = context.is_frozen("running_mean"), variance = context.is_frozen("running_var");
    if (mean != variance) {
      fail_at(origin, fmt::format("model.freeze names {0}.running_{1} without {0}.running_{2}; name both "
                                  "(\"{0}.*\", \"{0}.running_*\") or neither",
                                  context.name, mean ? "mean" : "var", mean ? "var" : "mean"));
    }
    return mean;
  }
  static Initial constant(double value) {
    return {.kind = Initial::Kind::fill, .a = value, .b = 0, .table = {}};
  }
  static TensorId state(LayerContext& context, const std::string& suffix, const Shape& shape, double value) {
    return context.build.program().persistent(context.name + "." + suffix, {shape, DType::f32}, Role::state,
                                              constant(value));
  }

  double eps_ = 1e-5, momentum_ = 0.1;
};

}  // namespace

Registered<Layer> batch_norm_layer() {
  return {"batch_norm", "batch normalisation; uses running statistics in evaluation",
          [] { return std::make_unique<BatchNormLayer>(); }};
}

}  // namespace trainer
