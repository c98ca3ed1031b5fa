// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

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

/// One walk over any number of parameters. Inputs: lr (1), updates so far i32 (1) or absent, scale (1) or
/// absent, skip (1) or absent, then for each parameter w, g and its moments; outputs: for each w' and its
/// moments'. Gradients are multiplied with scale first. Where skip is not 0 everything stays as it was.
class OptimizerStep : public Operation {
 public:
  enum Input : size_t { kLr, kUpdates, kScale, kSkip, kFirstParameter };

  OptimizerStep(size_t moments_each, std::vector<double> decays)
      : moments(moments_each), weight_decay(std::move(decays)) {}
  void describe(AttributeVisitor& visit) const final;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const final;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const final;
  bool in_place(size_t input, size_t output) const final;

  size_t parameters() const { return weight_decay.size(); }
  /// Position of a parameter's weights; its gradient and moments follow.
  size_t input_of(size_t parameter) const { return kFirstParameter + parameter * (2 + moments); }
  /// Position of its new weights; its new moments follow.
  size_t output_of(size_t parameter) const { return parameter * (1 + moments); }

  const size_t moments;                    ///< of each parameter
  const std::vector<double> weight_decay;  ///< of each parameter, in place of the rule's own

 private:
  virtual void describe_rule(AttributeVisitor& visit) const = 0;
  virtual double flops_per_element() const = 0;
};

/// Stochastic gradient descent, with one moment or none.
class Sgd final : public OptimizerStep {
 public:
  Sgd(SgdRule r, std::vector<double> decays)
      : OptimizerStep(r.momentum > 0 ? 1 : 0, std::move(decays)), rule_(r) {}
  std::string_view name() const override { return "sgd"; }
  SgdRule rule(size_t parameter) const;

 private:
  void describe_rule(AttributeVisitor& visit) const override;
  double flops_per_element() const override { return 6; }

  SgdRule rule_;
};

/// SGD whose step is as long as the weights suggest (You, Gitman, Ginsburg, "Large Batch Training of
/// Convolutional Networks", 2017): g + weight_decay * w is multiplied with trust * |w| / (|g| + weight_decay
/// * |w| + eps), 2-norms of the whole tensor, or with 1 where |w| or |g| is 0, and where a parameter does not
/// adapt.
class Lars final : public OptimizerStep {
 public:
  Lars(SgdRule r, double coefficient, double epsilon, std::vector<double> decays, std::vector<bool> adapting)
      : OptimizerStep(r.momentum > 0 ? 1 : 0, std::move(decays)),
        trust(coefficient),
        eps(epsilon),
        adapts(std::move(adapting)),
        rule_(r) {}
  std::string_view name() const override { return "lars"; }
  SgdRule rule(size_t parameter) const;

  /// What the gradient and the decay are multiplied with.
  double ratio(size_t parameter, double weight_norm, double gradient_norm) const {
    return adapts[parameter] ? ratio(trust, eps, weight_decay[parameter], weight_norm, gradient_norm) : 1;
  }
  static TRAINER_HD double ratio(double trust, double eps, double decay, double weight_norm,
                                 double gradient_norm) {
    if (weight_norm == 0 || gradient_norm == 0) return 1;
    return trust * weight_norm / (gradient_norm + decay * weight_norm + eps);
  }

  const double trust, eps;
  const std::vector<bool> adapts;  ///< of each parameter

 private:
  void describe_rule(AttributeVisitor& visit) const override;
  double flops_per_element() const override { return 10; }

  SgdRule rule_;
};

/// AdamW or Adam; the moments are the gradient's mean and that of its square.
class AdamW final : public OptimizerStep {
 public:
  AdamW(AdamWRule r, std::vector<double> decays) : OptimizerStep(2, std::move(decays)), rule_(r) {}
  std::string_view name() const override { return rule_.decoupled ? "adamw" : "adam"; }
  AdamWRule rule(size_t parameter) const;

 private:
  void describe_rule(AttributeVisitor& visit) const override;
  double flops_per_element() const override { return 14; }

  AdamWRule rule_;
};

/// All gradients -> scale (1) = min(1, max_norm / (norm + 1e-6)) and norm (1), their joint 2-norm.
class ClipByNorm final : public Operation {
 public:
  explicit ClipByNorm(double limit) : max_norm(limit) {}
  std::string_view name() const override { return "clip_by_norm"; }
  void describe(AttributeVisitor& visit) const override;
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

/// counter i32 (1), skip (1) or absent -> counter + 1, or the counter as it was where skip is not 0.
class Increment final : public Operation {
 public:
  std::string_view name() const override { return "increment"; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t, size_t) const override { return true; }
};

}  // namespace trainer
