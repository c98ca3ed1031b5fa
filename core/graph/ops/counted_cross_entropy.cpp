// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/counted_cross_entropy.h"

#include <fmt/format.h>

#include "core/graph/ops/cross_entropy.h"

namespace trainer {
namespace {

const TensorSpec kOneNumber{{1}, DType::f32};

void describe_counting(const LossCounting& counting, AttributeVisitor& visit) {
  visit("label_smoothing", counting.label_smoothing, {.hidden = counting.label_smoothing == 0});
  if (counting.ignore_index) visit("ignore_index", *counting.ignore_index);
  visit("gamma", counting.gamma, {.hidden = counting.gamma == 0});
}

/// exp, a sum, a division, a product and a weight for each logit.
double counted_flops(const TensorSpec& logits) {
  return 5.0 * static_cast<double>(numel(logits.shape));
}

}  // namespace

void CountedCrossEntropy::describe(AttributeVisitor& visit) const {
  describe_counting(counting, visit);
}

std::vector<TensorSpec> CountedCrossEntropy::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_classification(inputs);
  const int64_t classes = LogitExtents(inputs[kLogits].shape).classes;
  const Shape& weights = inputs[kClassWeights].shape;
  expect(weights.empty() || weights == Shape{classes},
         fmt::format("needs {} class weights, one for each class, got {}", classes, numel(weights)));
  expect(counting.gamma == 0 || counting.label_smoothing == 0, "takes gamma or label smoothing, not both");
  return {kOneNumber, kOneNumber, kOneNumber};
}

std::vector<TensorId> CountedCrossEntropy::gradient(const Backward& backward) const {
  std::vector<TensorId> inputs = backward.node.inputs, gradients(kInputs, kNone);
  inputs.insert(inputs.begin(), backward.dy[kLoss]);
  gradients[kLogits] = backward.build.emit<CountedCrossEntropyBackward>(inputs, counting);
  return gradients;
}

double CountedCrossEntropy::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return counted_flops(inputs[kLogits]);
}

void CountedCrossEntropyBackward::describe(AttributeVisitor& visit) const {
  describe_counting(counting, visit);
}

std::vector<TensorSpec> CountedCrossEntropyBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  return {inputs[kLogits]};
}

double CountedCrossEntropyBackward::flops(std::span<const TensorSpec> inputs,
                                          std::span<const TensorSpec>) const {
  return counted_flops(inputs[kLogits]);
}

std::vector<TensorSpec> MeanOfCounted::infer(std::span<const TensorSpec> inputs) const {
  const char* const text = "takes a sum, a weight and a scale";
  expect_count(inputs, kInputs, text);
  for (const TensorSpec& input : inputs) expect(input == kOneNumber, text);
  return {kOneNumber, kOneNumber, kOneNumber};
}

}  // namespace trainer
