// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/linear.h"

#include <fmt/format.h>

#include "core/graph/ops/unary.h"

namespace trainer {
namespace {

/// One multiply-add for each element of y and each feature of x.
double matmul_flops(const Shape& y, const Shape& x) {
  const int64_t features = numel(x) / x[0];
  return 2.0 * static_cast<double>(numel(y)) * static_cast<double>(features);
}

}  // namespace

std::vector<TensorSpec> Linear::infer(std::span<const TensorSpec> inputs) const {
  expect_one_type(inputs, {0, 1, 2});
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  expect(x.size() >= 2, "expected a batch of features (N, K), got " + to_string(x));
  const int64_t features = numel(x) / x[0];
  expect(w.size() == 2 && w[1] == features,
         fmt::format("weights of shape {} met {} features", to_string(w), features));
  return {{.shape = {x[0], w[0]}, .dtype = inputs[0].dtype}};
}

std::vector<TensorId> Linear::gradient(const Backward& backward) const {
  TensorId dy = backward.dy[0];
  if (relu)
    dy = backward.build.emit<UnaryBackward>({dy, backward.y(0)}, elementwise::Function(elementwise::Relu{}));
  std::vector<TensorId> gradients(3, kNone);
  if (backward.wanted[0]) {
    gradients[0] = backward.build.emit<LinearBackwardData>({dy, backward.x(1)}, backward.shape(0));
  }
  const bool bias = backward.wanted[2];
  if (!backward.wanted[1] && !bias) return gradients;
  const std::vector<TensorId> dw =
      backward.build.emit_all(std::make_shared<LinearBackwardWeights>(bias), {backward.x(0), dy});
  gradients[1] = dw[0];
  if (bias) gradients[2] = dw[1];
  return gradients;
}

double Linear::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const {
  return matmul_flops(outputs[0].shape, inputs[0].shape);
}

std::vector<TensorSpec> LinearBackwardData::infer(std::span<const TensorSpec> inputs) const {
  expect_one_type(inputs, {0, 1});
  return {{.shape = x_shape, .dtype = inputs[0].dtype}};
}

double LinearBackwardData::flops(std::span<const TensorSpec> inputs,
                                 std::span<const TensorSpec> outputs) const {
  return matmul_flops(inputs[0].shape, outputs[0].shape);
}

std::vector<TensorSpec> LinearBackwardWeights::infer(std::span<const TensorSpec> inputs) const {
  const Shape& x = inputs[0].shape;
  const int64_t out = inputs[1].shape[1];
  expect_one_type(inputs, {0, 1});
  std::vector<TensorSpec> outputs{{.shape = {out, numel(x) / x[0]}, .dtype = DType::f32}};
  if (has_bias) outputs.push_back({.shape = {out}, .dtype = DType::f32});
  return outputs;
}

double LinearBackwardWeights::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return matmul_flops(inputs[1].shape, inputs[0].shape);
}

}  // namespace trainer
