// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/cross_entropy.h"

#include <fmt/format.h>

namespace trainer {
namespace {

std::string smoothing_text(double smoothing) {
  return smoothing == 0 ? "" : fmt::format("label_smoothing={}", smoothing);
}

void expect_classification(std::span<const TensorSpec> inputs) {
  const Shape& logits = inputs[0].shape;
  expect(logits.size() == 2, "expected logits (N, classes), got " + to_string(logits) +
                                 "; end the network with flatten and linear");
  expect(inputs[1].shape == Shape{logits[0]} && inputs[2].shape == Shape{logits[0]},
         "needs one label and one weight per sample");
}

/// exp, a sum, a division and a product for each logit.
double softmax_flops(const TensorSpec& logits) {
  return 4.0 * static_cast<double>(numel(logits.shape));
}

}  // namespace

std::string CrossEntropy::attributes() const {
  return smoothing_text(label_smoothing);
}

std::vector<TensorSpec> CrossEntropy::infer(std::span<const TensorSpec> inputs) const {
  expect_classification(inputs);
  return {{.shape = {1}, .dtype = DType::f32}};
}

std::vector<TensorId> CrossEntropy::gradient(const Backward& backward) const {
  const TensorId dx = backward.build.emit<CrossEntropyBackward>(
      {backward.dy[0], backward.x(0), backward.x(1), backward.x(2)}, label_smoothing);
  return {dx, kNone, kNone};
}

double CrossEntropy::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return softmax_flops(inputs[0]);
}

std::string CrossEntropyBackward::attributes() const {
  return smoothing_text(label_smoothing);
}

std::vector<TensorSpec> CrossEntropyBackward::infer(std::span<const TensorSpec> inputs) const {
  return {inputs[1]};
}

double CrossEntropyBackward::flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec>) const {
  return softmax_flops(inputs[1]);
}

std::vector<TensorSpec> TopK::infer(std::span<const TensorSpec> inputs) const {
  expect_classification(inputs);
  expect(k <= inputs[0].shape[1],
         fmt::format("top{} needs at least {} classes, got {}", k, k, inputs[0].shape[1]));
  return {{.shape = {1}, .dtype = DType::f32}};
}

}  // namespace trainer
