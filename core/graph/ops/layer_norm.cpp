// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/layer_norm.h"

#include <fmt/format.h>

namespace trainer {
namespace {

/// Operations on each element, here and in the gradient: subtract, square, scale, add; sums as often again.
constexpr double kLayerNormFlops = 8, kLayerNormBackwardFlops = 14;

constexpr AttributeStyle kLayerNormEps{.digits = 6};

/// (N, K) and (N, T, K) without K.
Shape rows_of(const Shape& x) {
  return {x.begin(), x.end() - 1};
}

void expect_of_features(const TensorSpec& spec, int64_t features) {
  expect(spec.shape.empty() || spec.shape == Shape{features},
         fmt::format("expected one number for each of {} features, got {}", features, to_string(spec.shape)));
}

}  // namespace

void LayerNorm::describe(AttributeVisitor& visit) const {
  visit("eps", eps, kLayerNormEps);
}

std::vector<TensorSpec> LayerNorm::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[0].shape;
  expect(x.size() == 2 || x.size() == 3,
         "expected features (N, K) or (N, T, K), got shape " + to_string(x) +
             "; images are normalised by `group_norm`, `instance_norm` or `batch_norm`");
  expect_of_features(inputs[1], x.back());
  expect_of_features(inputs[2], x.back());
  expect(inputs[2].shape.empty() || !inputs[1].shape.empty(), "a bias needs weights");
  expect_type(inputs, {1, 2}, DType::f32);
  expect_one_type(inputs, {0, 3});
  const bool residual = !inputs[3].shape.empty();
  expect(!residual || inputs[3].shape == x,
         fmt::format("a residual of {} does not fit to {}", to_string(inputs[3].shape), to_string(x)));
  const TensorSpec statistic{.shape = rows_of(x), .dtype = DType::f32};
  std::vector<TensorSpec> outputs{inputs[0], statistic};
  if (!rms) outputs.push_back(statistic);
  if (residual) outputs.push_back(inputs[0]);
  return outputs;
}

std::vector<TensorId> LayerNorm::gradient(const Backward& backward) const {
  const bool residual = backward.x(3) != kNone;
  const TensorId s = residual ? backward.y(sum_output()) : backward.x(0),
                 other = residual ? backward.dy[sum_output()] : kNone;
  if (backward.dy[0] == kNone) return {other, kNone, kNone, other};
  const std::vector<TensorId> all = backward.build.emit_all(
      std::make_shared<LayerNormBackward>(rms), {backward.dy[0], s, backward.x(1), backward.y(kFactorOutput),
                                                 rms ? kNone : backward.y(kMeanOutput), other});
  return {all[0], all[1], all[2], all[0]};
}

std::vector<TensorId> LayerNorm::inputs_again(const Node& node) const {
  if (node.inputs[3] == kNone || node.outputs[sum_output()] == kNone) return node.inputs;
  return {node.outputs[sum_output()], node.inputs[1], node.inputs[2], kNone};
}

double LayerNorm::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kLayerNormFlops * static_cast<double>(numel(inputs[0].shape));
}

std::vector<TensorSpec> LayerNormBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_one_type(inputs, {0, 1, kOtherInput});
  expect_type(inputs, {2, 3, 4}, DType::f32);
  const Shape& s = inputs[1].shape;
  expect(inputs[0].shape == s && inputs[3].shape == rows_of(s),
         fmt::format("gradients of {} met rows of {}", to_string(inputs[0].shape), to_string(s)));
  const TensorSpec of_parameter{.shape = {s.back()}, .dtype = DType::f32};
  return {inputs[1], of_parameter, of_parameter};
}

double LayerNormBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kLayerNormBackwardFlops * static_cast<double>(numel(inputs[1].shape));
}

}  // namespace trainer
