// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/group_norm.h"

#include <fmt/format.h>

#include "core/graph/ops/reshape.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

/// Parameters per channel and the normalisation itself.
TensorId normalised_groups(LayerContext& context, TensorId x, int64_t groups, double eps, bool affine) {
  const Shape channels{context.build.shape(x)[1]};
  auto filled = [&](const char* suffix, double value) {
    return context.parameter(suffix, channels,
                             {.kind = Initial::Kind::fill, .a = value, .b = 0, .table = {}});
  };
  const TensorId gamma = affine ? filled("weight", 1) : kNone, beta = affine ? filled("bias", 0) : kNone;
  return context.build.emit<GroupNorm>({x, gamma, beta}, groups, eps);
}

class GroupNormLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("groups", &groups_, "number of groups of channels").required().dimension(1);
    fields.add("eps", &eps_, "added to the variance for numerical stability").above(0);
    fields.add("affine", &affine_, "a learned weight and bias for each channel");
  }

  LayerKeys keys_for(const LayerSizes& before, const LayerSizes& after) const override {
    const bool has_group_each = groups_ == before.input[1];
    return {{"groups", std::to_string(has_group_each ? after.input[1] : groups_)}};
  }

  /// Features (N, C) are images of one pixel.
  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape in = context.build.shape(x[0]);
    if (in.size() != 2 && in.size() != 4)
      fail_at(origin, "expected features (N, C) or images (N, C, H, W), got shape " + to_string(in) +
                          "; `layer_norm` normalises sequences");
    if (in[1] % groups_ != 0)
      fail_at(origin_of("groups"), fmt::format("{} groups do not divide {} channels", groups_, in[1]));
    if (in.size() == 4) return {normalised_groups(context, x[0], groups_, eps_, affine_)};
    const TensorId images = context.build.emit<Reshape>({x[0]}, Shape{in[0], in[1], 1, 1});
    return {context.build.emit<Reshape>({normalised_groups(context, images, groups_, eps_, affine_)}, in)};
  }

 private:
  int64_t groups_ = 0;
  double eps_ = 1e-5;
  bool affine_ = true;
};

class InstanceNormLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("eps", &eps_, "added to the variance for numerical stability").above(0);
    fields.add("affine", &affine_, "a learned weight and bias for each channel");
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape in = context.build.shape(x[0]);
    if (in.size() != 4) fail_at(origin, "expected images (N, C, H, W), got shape " + to_string(in));
    if (in[2] * in[3] == 1)
      fail_at(origin,
              "statistics need more than one value per channel; images "
              "of one pixel have none");
    return {normalised_groups(context, x[0], in[1], eps_, affine_)};
  }

 private:
  double eps_ = 1e-5;
  bool affine_ = false;  // as in PyTorch
};

}  // namespace

Registered<Layer> group_norm_layer() {
  return {"group_norm", "group normalisation, as PyTorch's GroupNorm",
          [] { return std::make_unique<GroupNormLayer>(); }};
}

Registered<Layer> instance_norm_layer() {
  return {"instance_norm", "instance normalisation, as PyTorch's InstanceNorm2d without running statistics",
          [] { return std::make_unique<InstanceNormLayer>(); }};
}

}  // namespace trainer
