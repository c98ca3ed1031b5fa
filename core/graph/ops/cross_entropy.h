// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// logits (N, C), labels i32 (N), weights (N) -> loss (1), the weighted sum over samples of
///   l = -(1 - s) log p[label] - s / C * sum_c log p[c],   p = softmax(logits), s = label smoothing.
/// With weights 1 / N it is the mean.
class CrossEntropy final : public Operation {
 public:
  explicit CrossEntropy(double smoothing) : label_smoothing(smoothing) {}
  std::string_view name() const override { return "cross_entropy"; }
  std::string attributes() const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const double label_smoothing;
};

/// dloss (1), logits, labels, weights -> dlogits = dloss * weight * (p - target), target = (1 - s) onehot + s
/// / C.
class CrossEntropyBackward final : public Operation {
 public:
  explicit CrossEntropyBackward(double smoothing) : label_smoothing(smoothing) {}
  std::string_view name() const override { return "cross_entropy_backward"; }
  std::string attributes() const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t) const override { return input == 1; }

  const double label_smoothing;
};

/// logits (N, C), labels (N), weights (N) -> (1), the weighted number of samples whose label is among the k
/// largest logits. Among equal logits the lower class comes first; NaN is never among them.
class TopK final : public Operation {
 public:
  explicit TopK(int64_t count) : k(count) {}
  std::string_view name() const override { return "top_k"; }
  std::string attributes() const override { return "k=" + std::to_string(k); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const int64_t k;
};

}  // namespace trainer
