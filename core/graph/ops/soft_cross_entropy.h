// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// logits and teacher (N, C), weights (N) -> loss (1), the weighted sum over samples of
///   l = -t^2 sum_c q_c log p_c,   p = softmax(logits / t), q = softmax(teacher / t), t = temperature
/// (Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network", 2015). Logits (N, T, C) or (N,
/// C, H, W): l is replaced by its mean over a sample's positions. A sample of weight 0 does not count, even
/// with NaN. The teacher gets no gradient.
class SoftCrossEntropy final : public Operation {
 public:
  enum : size_t { kLogits, kTeacher, kWeights, kInputs };
  enum : size_t { kLoss };

  explicit SoftCrossEntropy(double t) : temperature(t) {}
  std::string_view name() const override { return "soft_cross_entropy"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override { visit("temperature", temperature); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  std::optional<size_t> judged_input() const override { return kLogits; }

  const double temperature;
};

/// dloss (1), then soft_cross_entropy's inputs -> dlogits = dloss * weight / positions * t * (p - q).
class SoftCrossEntropyBackward final : public Operation {
 public:
  enum : size_t { kDloss, kLogits, kTeacher, kWeights, kInputs };
  enum : size_t { kDlogits };

  explicit SoftCrossEntropyBackward(double t) : temperature(t) {}
  std::string_view name() const override { return "soft_cross_entropy_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override { visit("temperature", temperature); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t) const override { return input == kLogits || input == kTeacher; }

  const double temperature;
};

}  // namespace trainer
