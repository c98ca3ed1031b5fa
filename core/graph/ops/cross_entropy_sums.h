// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>
#include <optional>

#include "core/base/host_device.h"
#include "core/base/math.h"
#include "core/graph/operation.h"

namespace trainer {

/// A label that never occurs: for losses and metrics that leave nothing out.
constexpr int32_t kNoLabel = std::numeric_limits<int32_t>::min();

/// The classes that one of several ranks has, in their order along an axis; the last ranks may have padding.
struct ClassCut {
  Along along;
  int64_t classes = 0;  ///< of all ranks

  void describe(AttributeVisitor& visit) const;
};

/// Of these the rank's own: logit c of `valid` is that of class `first + c` of `all`.
struct OwnClasses {
  OwnClasses(const std::optional<ClassCut>& cut, int64_t held, int64_t position);
  int64_t first, valid, all;
};

/// The loss of a row of logits with class weights w: as in PyTorch's cross_entropy, smoothing s is weighted
/// as well. W is the sum of all w, C their number.
template <class T>
struct WeightedTarget {
  T own;        ///< w[label]
  T smoothing;  ///< s
  T even;       ///< s / C

  /// (1 - s) w[label] (log_sum - x[label]) + s / C * (W log_sum - sum of w[c] x[c])
  TRAINER_HD T loss(T log_sum, T of_label, T all_weights, T weighted_logits) const {
    return (T(1) - smoothing) * own * (log_sum - of_label) + even * (all_weights * log_sum - weighted_logits);
  }
  /// Its derivative by x[c] is share(W) p[c] - even w[c] and, for the label, less sharp().
  TRAINER_HD T share(T all_weights) const { return sharp() + even * all_weights; }
  TRAINER_HD T sharp() const { return (T(1) - smoothing) * own; }
};

/// The factors by which the focal loss of a position, -(1 - p)^gamma log p of its label's probability p,
/// differs from cross entropy.
template <class T>
struct Focus {
  T loss;      ///< times the cross entropy
  T gradient;  ///< times its derivative by any logit

  /// Finite for any finite log p, which may be above 0 by rounding.
  TRAINER_HD Focus(T gamma, T log_p) {
    const T log_own = log_p > 0 ? T(0) : log_p;
    const T rest = -math::expm1(log_own);  // 1 - p, to a relative error of rounding
    loss = std::pow(rest, gamma);
    // The derivative is rest^gamma - gamma p rest^(gamma - 1) log p; log p / rest nears -1 as p nears 1.
    gradient = loss * (1 + gamma * (1 - rest) * (rest > 0 ? -log_own / rest : T(1)));
  }
};

/// The positions that a mean counts, and the loss of each.
struct CrossEntropySettings {
  double label_smoothing = 0;
  std::optional<int64_t> ignore_index;  ///< positions with this label do not count
  double gamma = 0;                     ///< of Focus; above 0 only without label smoothing

  int32_t ignored() const { return ignore_index ? static_cast<int32_t>(*ignore_index) : kNoLabel; }
};

/// Cross entropy with a mean over valid targets, each by the weight of its class. Inputs: logits, labels
/// and weights as cross_entropy's, class weights (C) or absent. Outputs, each (1), are sums over samples and
/// positions of weights[n] / positions times, if the label is not the one to ignore,
///   kLoss: the loss of the position, of WeightedTarget, times (1 - p[label])^gamma,
///   kWeight: w[label],
///   kValidTargets: 1.
/// The gradient reads two more, of the labels' shape: cross_entropy's kLargest and kExpSum. They hold
/// anything where the label is the one to ignore. The mean is kLoss divided by kWeight, after both have been
/// added up over micro-batches and ranks.
class CrossEntropySums final : public Operation {
 public:
  enum : size_t {
    kLogits,
    kLabels,
    kWeights,       ///< (N), of samples
    kClassWeights,  ///< (C), or absent
    kInputs
  };
  enum Output : size_t { kLoss, kWeight, kValidTargets, kLargest, kExpSum };

  explicit CrossEntropySums(const CrossEntropySettings& how, std::optional<ClassCut> classes = {})
      : settings(how), cut(classes) {}
  std::string_view name() const override { return "cross_entropy_sums"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t input) const override {
    return input == kLogits ? InputType::as_made : InputType::f32;
  }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  std::optional<size_t> judged_input() const override { return kLogits; }
  /// The focal loss's gradient reads the label's logit, which another rank may have.
  std::optional<FeatureCut> feature_cut(std::span<const TensorSpec>) const override {
    if (settings.gamma != 0) return std::nullopt;
    return FeatureCut{.inputs = {kLogits}, .ends = true};
  }
  std::shared_ptr<const Operation> on_part(const SharedPart& part) const override;

  const CrossEntropySettings settings;
  const std::optional<ClassCut> cut;  ///< of the logits: exchange_logits replaces it then
};

/// dloss (1), then cross_entropy_sums's inputs, then its last two outputs -> dlogits, the gradient of its
/// first output.
class CrossEntropySumsBackward final : public Operation {
 public:
  enum : size_t { kDloss, kLogits, kLabels, kWeights, kClassWeights, kLargest, kExpSum, kInputs };
  enum : size_t { kDlogits };

  explicit CrossEntropySumsBackward(const CrossEntropySettings& how, std::optional<ClassCut> classes = {})
      : settings(how), cut(classes) {}
  std::string_view name() const override { return "cross_entropy_sums_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t) const override { return input == kLogits; }

  const CrossEntropySettings settings;
  const std::optional<ClassCut> cut;  ///< of the logits; the gradient of padding is zero
};

/// sum (1), weight (1), scale (1) -> mean (1) = sum / weight, and factor (1) = 1 / (scale * weight), by which
/// gradients of scale * sum must be multiplied. A weight of 0 (a batch without a valid target) counts as 1:
/// the sum and all gradients are then 0. divisor (1), the third output, is 1 / factor.
class MeanOverTargets final : public Operation {
 public:
  enum : size_t { kSum, kWeight, kScale, kInputs };
  enum Output : size_t { kMean, kFactor, kDivisor };

  std::string_view name() const override { return "mean_over_targets"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
};

}  // namespace trainer
