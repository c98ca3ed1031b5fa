// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/softmax.h"

namespace trainer {
namespace {

/// Operations on each element, an exponential counting as one: here and in the gradient.
constexpr double kSoftmaxFlops = 5, kSoftmaxBackwardFlops = 4;

}  // namespace

std::vector<TensorSpec> Softmax::infer(std::span<const TensorSpec> inputs) const {
  const size_t rank = inputs[kX].shape.size();
  expect(rank >= 2 && rank <= 4,
         "expected (N, K), (N, T, K) or (N, C, H, W), got shape " + to_string(inputs[kX].shape));
  expect_type(inputs, {kX}, DType::f32);
  return {inputs[kX]};
}

std::vector<TensorId> Softmax::gradient(const Backward& backward) const {
  return {backward.build.emit<SoftmaxBackward>({backward.dy[kY], backward.y(kY)}, log)};
}

double Softmax::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kSoftmaxFlops * static_cast<double>(numel(inputs[kX].shape));
}

std::vector<TensorSpec> SoftmaxBackward::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs[kDy] == inputs[kY],
         "gradients of " + to_string(inputs[kDy].shape) + " met a softmax of " + to_string(inputs[kY].shape));
  return {inputs[kY]};
}

double SoftmaxBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kSoftmaxBackwardFlops * static_cast<double>(numel(inputs[kY].shape));
}

/// For images it runs over the channels, which have the place of a sequence's positions.
bool Softmax::is_by_position(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return inputs[kX].shape.size() == 3;
}

}  // namespace trainer
