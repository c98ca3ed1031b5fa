// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/cross_entropy_sums.h"

#include <fmt/format.h>

#include "core/graph/ops/cross_entropy.h"

namespace trainer {
namespace {

const TensorSpec kOneNumber{{1}, DType::f32};

void describe_settings(const CrossEntropySettings& settings, AttributeVisitor& visit) {
  visit("label_smoothing", settings.label_smoothing, {.hidden = settings.label_smoothing == 0});
  if (settings.ignore_index) visit("ignore_index", *settings.ignore_index);
  visit("gamma", settings.gamma, {.hidden = settings.gamma == 0});
}

/// exp, a sum, a division, a product and a weight for each logit.
double flops_of_sums(const TensorSpec& logits) {
  return 5.0 * static_cast<double>(numel(logits.shape));
}

}  // namespace

void CrossEntropySums::describe(AttributeVisitor& visit) const {
  describe_settings(settings, visit);
  if (cut) cut->describe(visit);
}

std::shared_ptr<const Operation> CrossEntropySums::on_part(const SharedPart& part) const {
  return std::make_shared<CrossEntropySums>(settings, ClassCut{part.along, part.whole.back()});
}

std::vector<TensorSpec> CrossEntropySums::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_classification(inputs);
  const int64_t classes = cut ? cut->classes : LogitSizes(inputs[kLogits].shape).classes;
  const Shape& weights = inputs[kClassWeights].shape;
  expect(weights.empty() || weights == Shape{classes},
         fmt::format("needs {} class weights, one for each class, got {}", classes, numel(weights)));
  expect(settings.gamma == 0 || settings.label_smoothing == 0, "takes gamma or label smoothing, not both");
  const TensorSpec of_rows{inputs[kLabels].shape, DType::f32};
  return {kOneNumber, kOneNumber, kOneNumber, of_rows, of_rows};
}

std::vector<TensorId> CrossEntropySums::gradient(const Backward& backward) const {
  std::vector<TensorId> inputs = backward.node.inputs, gradients(kInputs, kNone);
  inputs.insert(inputs.begin(), backward.dy[kLoss]);
  inputs.insert(inputs.end(), {backward.node.outputs[kLargest], backward.node.outputs[kExpSum]});
  gradients[kLogits] = backward.build.emit<CrossEntropySumsBackward>(inputs, settings, cut);
  return gradients;
}

double CrossEntropySums::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return flops_of_sums(inputs[kLogits]);
}

void CrossEntropySumsBackward::describe(AttributeVisitor& visit) const {
  describe_settings(settings, visit);
  if (cut) cut->describe(visit);
}

std::vector<TensorSpec> CrossEntropySumsBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_softmax(inputs, kLargest, inputs[kLabels]);
  return {inputs[kLogits]};
}

double CrossEntropySumsBackward::flops(std::span<const TensorSpec> inputs,
                                       std::span<const TensorSpec>) const {
  return flops_of_sums(inputs[kLogits]);
}

std::vector<TensorSpec> MeanOverTargets::infer(std::span<const TensorSpec> inputs) const {
  const char* const text = "takes a sum, a weight and a scale";
  expect_count(inputs, kInputs, text);
  for (const TensorSpec& input : inputs) expect(input == kOneNumber, text);
  return {kOneNumber, kOneNumber, kOneNumber};
}

}  // namespace trainer
