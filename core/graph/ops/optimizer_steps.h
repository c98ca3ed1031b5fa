// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/host_device.h"
#include "core/base/math.h"
#include "core/graph/operation.h"

namespace trainer {

/// One element of SGD with momentum, as PyTorch's: g += weight_decay * w; m = momentum * m + g;
/// w -= lr * (nesterov ? g + momentum * m : m). Without momentum there is no m.
struct SgdRule {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;

  template <class T>
  TRAINER_HD void operator()(T& w, T g, T& m, T lr) const {
    g += T(weight_decay) * w;
    m = T(momentum) * m + g;
    w -= lr * (nesterov ? g + T(momentum) * m : m);
  }
};

/// One element of AdamW (Loshchilov, Hutter, ICLR 2019) or, with a decay that is not decoupled but part of
/// the gradient, of Adam (Kingma, Ba, ICLR 2015), as PyTorch's. `correction1` = 1 - beta1^t and
/// `root_correction2` = sqrt(1 - beta2^t), t counting updates from 1.
struct AdamWRule {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  bool decoupled = true;

  template <class T>
  TRAINER_HD void operator()(T& w, T g, T& m, T& v, T lr, T correction1, T root_correction2) const {
    g += (decoupled ? T(0) : T(weight_decay)) * w;
    w -= lr * (decoupled ? T(weight_decay) : T(0)) * w;
    m += T(1 - beta1) * (g - m);
    v = T(beta2) * v + T(1 - beta2) * g * g;
    w -= lr / correction1 * m / (math::sqrt(v) / root_correction2 + T(eps));
  }
};

/// w, g, m or absent, lr (1), scale (1) or absent -> w', m'. The gradient is multiplied with scale first.
class Sgd final : public Operation {
 public:
  explicit Sgd(SgdRule r) : rule(r) {}
  std::string_view name() const override { return "sgd"; }
  std::string attributes() const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t output) const override;

  const SgdRule rule;
};

/// SGD whose step is as long as the weights suggest (You, Gitman, Ginsburg, "Large Batch Training of
/// Convolutional Networks", 2017): g + weight_decay * w is multiplied with trust * |w| / (|g| + weight_decay
/// * |w| + eps), 2-norms of the whole tensor, or with 1 where |w| or |g| is 0. Inputs and outputs are Sgd's.
class Lars final : public Operation {
 public:
  Lars(SgdRule r, double coefficient, double epsilon) : rule(r), trust(coefficient), eps(epsilon) {}
  std::string_view name() const override { return "lars"; }
  std::string attributes() const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t output) const override;

  /// What the gradient and the decay are multiplied with.
  double ratio(double weight_norm, double gradient_norm) const {
    if (weight_norm == 0 || gradient_norm == 0) return 1;
    return trust * weight_norm / (gradient_norm + rule.weight_decay * weight_norm + eps);
  }

  const SgdRule rule;
  const double trust, eps;
};

/// w, g, m, v, lr (1), updates so far i32 (1), scale (1) or absent -> w', m', v'.
class AdamW final : public Operation {
 public:
  explicit AdamW(AdamWRule r) : rule(r) {}
  std::string_view name() const override { return rule.decoupled ? "adamw" : "adam"; }
  std::string attributes() const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t output) const override;

  const AdamWRule rule;
};

/// All gradients -> scale (1) = min(1, max_norm / (norm + 1e-6)) and norm (1), their joint 2-norm.
class ClipByNorm final : public Operation {
 public:
  explicit ClipByNorm(double limit) : max_norm(limit) {}
  std::string_view name() const override { return "clip_by_norm"; }
  std::string attributes() const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const double max_norm;
};

/// table (T), index i32 (1) -> table[min(index, T - 1)] (1).
class TableLookup final : public Operation {
 public:
  std::string_view name() const override { return "table_lookup"; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
};

/// counter i32 (1) -> counter + 1.
class Increment final : public Operation {
 public:
  std::string_view name() const override { return "increment"; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t, size_t) const override { return true; }
};

}  // namespace trainer
