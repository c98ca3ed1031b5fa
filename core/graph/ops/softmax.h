// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// y = exp(x) / sum of exp(x), or with `log` its logarithm, over the last dimension of (N, K) and (N, T, K),
/// over the channels of images (N, C, H, W); f32, as mixed precision computes it.
class Softmax final : public Operation {
 public:
  enum : size_t { kX, kInputs };
  enum : size_t { kY };

  explicit Softmax(bool logarithm) : log(logarithm) {}
  std::string_view name() const override { return log ? "log_softmax" : "softmax"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t, size_t) const override { return true; }
  bool is_by_position(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const bool log;
};

/// dy, y -> dx = y * (dy - sum of dy y); with `log` dx = dy - exp(y) * sum of dy.
class SoftmaxBackward final : public Operation {
 public:
  enum : size_t { kDy, kY, kInputs };
  enum : size_t { kDx };

  explicit SoftmaxBackward(bool logarithm) : log(logarithm) {}
  std::string_view name() const override { return log ? "log_softmax_backward" : "softmax_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t, size_t) const override { return true; }

  const bool log;
};

/// Position of a softmax's classes in row-major memory: `rows` times `classes` elements, `step` apart, of
/// `step` neighbours.
struct SoftmaxSizes {
  int64_t rows, classes, step;

  explicit SoftmaxSizes(const Shape& shape)
      : classes(shape.size() == 4 ? shape[1] : shape.back()),
        step(shape.size() == 4 ? shape[2] * shape[3] : 1) {
    rows = numel(shape) / (classes * step);
  }
};

}  // namespace trainer
