// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/sync_batch_norm.h"

namespace trainer {
namespace {

/// Operations on each element of x: subtract, square or multiply, add; mask and second gradient.
constexpr double kMomentsFlops = 4, kSumsFlops = 6;

TensorSpec table_of(int64_t ranks, int64_t channels) {
  return {.shape = {ranks, 2, channels}, .dtype = DType::f32};
}

}  // namespace

std::vector<TensorSpec> BatchNormMoments::infer(std::span<const TensorSpec> inputs) const {
  expect(inputs[kX].shape.size() == 4, "expected images (N, C, H, W), got " + to_string(inputs[kX].shape));
  return {table_of(ranks, inputs[kX].shape[1])};
}

double BatchNormMoments::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kMomentsFlops * static_cast<double>(numel(inputs[kX].shape));
}

void BatchNormSums::describe(AttributeVisitor& visit) const {
  visit("eps", eps, {.digits = 6});
  visit("ranks", ranks);
  visit("residual", residual);
}

std::vector<TensorSpec> BatchNormSums::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_one_type(inputs, {kDy, kX, kOtherDy});
  expect_type(inputs, {kMean, kVariance}, DType::f32);
  std::vector<TensorSpec> outputs{table_of(ranks, inputs[kX].shape[1]), inputs[kMean], inputs[kMean]};
  if (residual) outputs.push_back(inputs[kX]);
  return outputs;
}

double BatchNormSums::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kSumsFlops * static_cast<double>(numel(inputs[kX].shape));
}

}  // namespace trainer
