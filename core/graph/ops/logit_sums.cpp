// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/logit_sums.h"

#include <fmt/format.h>

namespace trainer {
namespace {

/// Operations for each logit, as cross_entropy's forward part; and for each row and rank.
constexpr double kLogitFlops = 4, kRowFlops = 8;

void describe_classes(AttributeVisitor& visit, const ClassCut& cut) {
  describe(visit, cut.along);
  visit("classes", cut.classes);
}

}  // namespace

void LogitSums::describe(AttributeVisitor& visit) const {
  describe_classes(visit, cut);
}

std::vector<TensorSpec> LogitSums::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  const Shape &logits = inputs[kLogits].shape, &labels = inputs[kLabels].shape;
  expect(logits.size() >= 2 && Shape(logits.begin(), logits.end() - 1) == labels,
         fmt::format("needs one label for each row of logits, got {} and {}", to_string(labels),
                     to_string(logits)));
  expect(logits.back() * cut.along.ranks >= cut.classes, "the ranks have fewer classes than there are");
  return {{.shape = {numel(labels), LogitSum::kFields}, .dtype = DType::f32}};
}

double LogitSums::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kLogitFlops * static_cast<double>(numel(inputs[kLogits].shape));
}

void CrossEntropyOfSums::describe(AttributeVisitor& visit) const {
  visit("label_smoothing", label_smoothing, {.hidden = label_smoothing == 0});
  describe_classes(visit, cut);
}

std::vector<TensorSpec> CrossEntropyOfSums::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  const Shape& labels = inputs[kLabels].shape;
  expect(inputs[kSums] == TensorSpec{{cut.along.ranks, numel(labels), LogitSum::kFields}, DType::f32},
         "needs the sums of each rank for each label");
  expect(inputs[kWeights] == TensorSpec{{labels[0]}, DType::f32}, "needs one weight per sample");
  const TensorSpec of_rows{labels, DType::f32};
  return {{.shape = {1}, .dtype = DType::f32}, of_rows, of_rows};
}

double CrossEntropyOfSums::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kRowFlops * static_cast<double>(numel(inputs[kSums].shape) / LogitSum::kFields);
}

}  // namespace trainer
