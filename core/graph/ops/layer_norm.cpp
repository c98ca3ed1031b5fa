// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/layer_norm.h"

#include <fmt/format.h>

namespace trainer {
namespace {

/// Operations on each element, here and in the gradient: subtract, square, scale, add; sums as often again.
constexpr double kLayerNormFlops = 8, kLayerNormBackwardFlops = 14;

constexpr AttributeStyle kLayerNormEps{.digits = 6};

/// (N, K), (N, T, K) and (N, T, H, K) without K.
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
  expect_count(inputs, kInputs);
  const Shape& x = inputs[kX].shape;
  expect(x.size() >= 2 && x.size() <= 4,
         "expected features (N, K) or (N, T, K), got shape " + to_string(x) +
             "; images are normalised by `group_norm`, `instance_norm` or `batch_norm`");
  expect_of_features(inputs[kGamma], x.back());
  expect_of_features(inputs[kBeta], x.back());
  expect(inputs[kBeta].shape.empty() || !inputs[kGamma].shape.empty(), "a bias needs weights");
  expect_type(inputs, {kGamma, kBeta}, DType::f32);
  expect_one_type(inputs, {kX, kResidual});
  const bool residual = !inputs[kResidual].shape.empty();
  expect(
      !residual || inputs[kResidual].shape == x,
      fmt::format("a residual of {} does not fit to {}", to_string(inputs[kResidual].shape), to_string(x)));
  const TensorSpec statistic{.shape = rows_of(x), .dtype = DType::f32};
  std::vector<TensorSpec> outputs{inputs[kX], statistic};
  if (!rms) outputs.push_back(statistic);
  if (residual) outputs.push_back(inputs[kX]);
  return outputs;
}

std::vector<TensorId> LayerNorm::gradient(const Backward& backward) const {
  const bool residual = backward.x(kResidual) != kNone;
  const TensorId s = residual ? backward.y(sum_output()) : backward.x(kX),
                 other = residual ? backward.dy[sum_output()] : kNone;
  if (backward.dy[kY] == kNone) return {other, kNone, kNone, other};
  const std::vector<TensorId> all = backward.build.emit_all(
      std::make_shared<LayerNormBackward>(rms),
      {backward.dy[kY], s, backward.x(kGamma), backward.y(kFactor), rms ? kNone : backward.y(kMean), other});
  const TensorId dx = all[LayerNormBackward::kDx];
  return {dx, all[LayerNormBackward::kDgamma], all[LayerNormBackward::kDbeta], dx};
}

std::vector<size_t> LayerNorm::row_inputs(std::span<const TensorSpec> inputs) const {
  return is_given(inputs[kResidual]) ? std::vector<size_t>{kX, kResidual} : std::vector<size_t>{kX};
}

std::vector<TensorId> LayerNorm::inputs_again(const Node& node) const {
  if (node.inputs[kResidual] == kNone || node.outputs[sum_output()] == kNone) return node.inputs;
  return {node.outputs[sum_output()], node.inputs[kGamma], node.inputs[kBeta], kNone};
}

double LayerNorm::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kLayerNormFlops * static_cast<double>(numel(inputs[kX].shape));
}

std::vector<TensorSpec> LayerNormBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_one_type(inputs, {kDy, kSum, kOtherDy});
  expect_type(inputs, {kGamma, kFactor, kMean}, DType::f32);
  const Shape& s = inputs[kSum].shape;
  expect(inputs[kDy].shape == s && inputs[kFactor].shape == rows_of(s),
         fmt::format("gradients of {} met rows of {}", to_string(inputs[kDy].shape), to_string(s)));
  const TensorSpec of_parameter{.shape = {s.back()}, .dtype = DType::f32};
  return {inputs[kSum], of_parameter, of_parameter};
}

double LayerNormBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kLayerNormBackwardFlops * static_cast<double>(numel(inputs[kSum].shape));
}

}  // namespace trainer
