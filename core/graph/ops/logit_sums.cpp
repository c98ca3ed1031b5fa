// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/logit_sums.h"

#include <fmt/format.h>

namespace trainer {
namespace {

/// Operations for each logit, as cross_entropy's forward part; and for each row and rank.
constexpr double kLogitFlops = 4, kRowFlops = 8;

void expect_sums(const TensorSpec& sums, const ClassCut& cut, const Shape& labels) {
  expect(sums == TensorSpec{{cut.along.ranks, numel(labels), LogitSum::kFields}, DType::f32},
         "needs the sums of each rank for each label");
}

void expect_sample_weights(const TensorSpec& weights, const Shape& labels) {
  expect(weights == TensorSpec{{labels[0]}, DType::f32}, "needs one weight per sample");
}

}  // namespace

void LogitSums::describe(AttributeVisitor& visit) const {
  cut.describe(visit);
}

std::vector<TensorSpec> LogitSums::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  const Shape &logits = inputs[kLogits].shape, &labels = inputs[kLabels].shape;
  expect(logits.size() >= 2 && Shape(logits.begin(), logits.end() - 1) == labels,
         fmt::format("needs one label for each row of logits, got {} and {}", to_string(labels),
                     to_string(logits)));
  expect(logits.back() * cut.along.ranks >= cut.classes, "the ranks have fewer classes than there are");
  const Shape& weights = inputs[kClassWeights].shape;
  expect(weights.empty() || weights == Shape{cut.classes}, "needs a weight of each class of all ranks");
  return {{.shape = {numel(labels), LogitSum::kFields}, .dtype = DType::f32}};
}

double LogitSums::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return kLogitFlops * static_cast<double>(numel(inputs[kLogits].shape));
}

void CrossEntropyOfRanks::describe(AttributeVisitor& visit) const {
  visit("label_smoothing", label_smoothing, {.hidden = label_smoothing == 0});
  cut.describe(visit);
}

std::vector<TensorSpec> CrossEntropyOfRanks::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  const Shape& labels = inputs[kLabels].shape;
  expect_sums(inputs[kSums], cut, labels);
  expect_sample_weights(inputs[kWeights], labels);
  const TensorSpec of_rows{labels, DType::f32};
  return {{.shape = {1}, .dtype = DType::f32}, of_rows, of_rows};
}

double CrossEntropyOfRanks::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  const Shape& sums = inputs[kSums].shape;
  return kRowFlops * static_cast<double>(sums[0] * sums[1]);
}

void CrossEntropySumsOfRanks::describe(AttributeVisitor& visit) const {
  CrossEntropySums(settings, cut).describe(visit);
}

std::vector<TensorSpec> CrossEntropySumsOfRanks::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  const Shape& labels = inputs[kLabels].shape;
  expect_sums(inputs[kSums], cut, labels);
  expect_sample_weights(inputs[kWeights], labels);
  const TensorSpec one{{1}, DType::f32}, of_rows{labels, DType::f32};
  return {one, one, one, of_rows, of_rows};
}

std::vector<TensorSpec> ClassesBefore::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  expect_sums(inputs[kSums], cut, inputs[kLabels].shape);
  return {{.shape = {numel(inputs[kLabels].shape)}, .dtype = DType::f32}};
}

void TopKOfRanks::describe(AttributeVisitor& visit) const {
  TopK(k, ignored, cut).describe(visit);
}

std::vector<TensorSpec> TopKOfRanks::infer(std::span<const TensorSpec> inputs) const {
  expect_count(inputs, kInputs);
  const Shape& labels = inputs[kLabels].shape;
  expect(inputs[kCounts] == TensorSpec{{numel(labels)}, DType::f32}, "needs a count for each label");
  expect_sums(inputs[kSums], cut, labels);
  expect_sample_weights(inputs[kWeights], labels);
  return {{.shape = {1}, .dtype = DType::f32}};
}

}  // namespace trainer
