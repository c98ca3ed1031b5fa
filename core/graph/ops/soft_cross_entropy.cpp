// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/soft_cross_entropy.h"

namespace trainer {
namespace {

void expect_teacher(const TensorSpec& logits, const TensorSpec& teacher, const TensorSpec& weights) {
  const size_t dimensions = logits.shape.size();
  expect(dimensions >= 2 && dimensions <= 4, "expected logits (N, classes), got " + to_string(logits.shape));
  expect(
      logits.dtype == DType::f32 && teacher == logits,
      "needs logits of a teacher of shape " + to_string(logits.shape) + ", got " + to_string(teacher.shape));
  expect(weights == TensorSpec{{logits.shape[0]}, DType::f32}, "needs one weight per sample");
}

/// exp, a sum, a division and a product for each logit of both networks.
double both_softmax_flops(const TensorSpec& logits) {
  return 8.0 * static_cast<double>(numel(logits.shape));
}

}  // namespace

std::vector<TensorSpec> SoftCrossEntropy::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_teacher(inputs[kLogits], inputs[kTeacher], inputs[kWeights]);
  return {{.shape = {1}, .dtype = DType::f32}};
}

std::vector<TensorId> SoftCrossEntropy::gradient(const Backward& backward) const {
  std::vector<TensorId> gradients(kInputs, kNone);
  gradients[kLogits] = backward.build.emit<SoftCrossEntropyBackward>(
      {backward.dy[kLoss], backward.x(kLogits), backward.x(kTeacher), backward.x(kWeights)}, temperature);
  return gradients;
}

double SoftCrossEntropy::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return both_softmax_flops(inputs[kLogits]);
}

std::vector<TensorSpec> SoftCrossEntropyBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_teacher(inputs[kLogits], inputs[kTeacher], inputs[kWeights]);
  return {inputs[kLogits]};
}

double SoftCrossEntropyBackward::flops(std::span<const TensorSpec> inputs,
                                       std::span<const TensorSpec>) const {
  return both_softmax_flops(inputs[kLogits]);
}

}  // namespace trainer
