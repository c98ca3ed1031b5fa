// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/cross_entropy.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainer {

void expect_classification(std::span<const TensorSpec> inputs) {
  expect_type(inputs, {CrossEntropy::kWeights}, DType::f32);
  const Shape &logits = inputs[CrossEntropy::kLogits].shape, &labels = inputs[CrossEntropy::kLabels].shape;
  const bool per_position = logits.size() == 3 || (logits.size() == 4 && labels.size() == 3);
  expect(logits.size() == 2 || per_position, "expected logits (N, classes), got " + to_string(logits) +
                                                 "; end the network with flatten and linear");
  expect(inputs[CrossEntropy::kWeights].shape == Shape{logits[0]}, "needs one weight per sample");
  if (per_position) {
    const Shape expected =
        logits.size() == 3 ? Shape{logits[0], logits[1]} : Shape{logits[0], logits[2], logits[3]};
    expect(labels == expected,
           fmt::format("needs one label per {}, got labels of shape {} for logits {}",
                       logits.size() == 3 ? "position" : "pixel", to_string(labels), to_string(logits)));
  } else {
    expect(labels == Shape{logits[0]}, "needs one label per sample");
  }
}

void expect_softmax(std::span<const TensorSpec> inputs, size_t first, const TensorSpec& labels) {
  const TensorSpec expected{labels.shape, DType::f32};
  expect(inputs[first] == expected && inputs[first + 1] == expected,
         "needs the largest logit and the sum of exp of each row");
}

namespace {

void expect_targets(std::span<const TensorSpec> inputs) {
  expect_classification(inputs);
  if (!is_given(inputs[CrossEntropy::kOtherLabels]) && !is_given(inputs[CrossEntropy::kMixWeights])) return;
  const Shape per_sample{inputs[CrossEntropy::kLogits].shape[0]};
  expect(inputs[CrossEntropy::kLogits].shape.size() == 2,
         "mixed labels are for logits (N, classes), got " + to_string(inputs[CrossEntropy::kLogits].shape));
  expect(inputs[CrossEntropy::kOtherLabels].shape == per_sample &&
             inputs[CrossEntropy::kMixWeights].shape == per_sample,
         "needs one other label and one mix weight per sample");
}

/// exp, a sum, a division and a product for each logit.
double softmax_flops(const TensorSpec& logits) {
  return 4.0 * static_cast<double>(numel(logits.shape));
}

}  // namespace

LogitSizes::LogitSizes(const Shape& logits) : samples(logits[0]), positions(1), classes(logits[1]) {
  if (logits.size() == 3) positions = logits[1], classes = logits[2];
  if (logits.size() == 4) positions = logits[2] * logits[3];
}

OwnClasses::OwnClasses(const std::optional<ClassCut>& cut, int64_t held, int64_t position)
    : first(held * position), valid(held), all(cut ? cut->classes : held) {
  if (cut) valid = std::clamp<int64_t>(all - first, 0, held);
}

void ClassCut::describe(AttributeVisitor& visit) const {
  trainer::describe(visit, along);
  visit("classes", classes);
}

void CrossEntropy::describe(AttributeVisitor& visit) const {
  visit("label_smoothing", label_smoothing, {.hidden = label_smoothing == 0});
  if (cut) cut->describe(visit);
}

std::shared_ptr<const Operation> CrossEntropy::on_part(const SharedPart& part) const {
  return std::make_shared<CrossEntropy>(label_smoothing, ClassCut{part.along, part.whole.back()});
}

std::vector<TensorSpec> CrossEntropy::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_targets(inputs);
  const TensorSpec of_rows{inputs[kLabels].shape, DType::f32};
  return {{.shape = {1}, .dtype = DType::f32}, of_rows, of_rows};
}

std::vector<TensorId> CrossEntropy::gradient(const Backward& backward) const {
  std::vector<TensorId> inputs = backward.node.inputs, gradients(kInputs, kNone);
  inputs.insert(inputs.begin(), backward.dy[kLoss]);
  inputs.insert(inputs.end(), {backward.node.outputs[kLargest], backward.node.outputs[kExpSum]});
  gradients[kLogits] = backward.build.emit<CrossEntropyBackward>(inputs, label_smoothing, cut);
  return gradients;
}

double CrossEntropy::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return softmax_flops(inputs[kLogits]);
}

void CrossEntropyBackward::describe(AttributeVisitor& visit) const {
  visit("label_smoothing", label_smoothing, {.hidden = label_smoothing == 0});
  if (cut) cut->describe(visit);
}

std::vector<TensorSpec> CrossEntropyBackward::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_softmax(inputs, kLargest, inputs[kLabels]);
  return {inputs[kLogits]};
}

double CrossEntropyBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return softmax_flops(inputs[kLogits]);
}

void TopK::describe(AttributeVisitor& visit) const {
  visit("k", k);
  if (ignored != kNoLabel) visit("ignored", int64_t{ignored});
  if (cut) cut->describe(visit);
}

std::shared_ptr<const Operation> TopK::on_part(const SharedPart& part) const {
  return std::make_shared<TopK>(k, ignored, ClassCut{part.along, part.whole.back()});
}

std::vector<TensorSpec> TopK::infer(std::span<const TensorSpec> inputs) const {
  expect_classification(inputs);
  const int64_t classes = cut ? cut->classes : LogitSizes(inputs[kLogits].shape).classes;
  expect(k <= classes, fmt::format("top{} needs at least {} classes, got {}", k, k, classes));
  return {{.shape = {1}, .dtype = DType::f32}};
}

}  // namespace trainer
