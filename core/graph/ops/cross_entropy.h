// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/host_device.h"
#include "core/graph/operation.h"
#include "core/graph/ops/cross_entropy_sums.h"

namespace trainer {

/// The positions of a sample, each with a label: one, the T of a sequence, or an image's H * W pixels. In an
/// image (N, C, H, W) the classes of a position are not adjacent; otherwise they are the last dimension.
struct LogitSizes {
  explicit LogitSizes(const Shape& logits);
  int64_t samples, positions, classes;
};

/// Throws std::invalid_argument unless inputs 0 to 2 are logits, labels and weights of one of these forms.
void expect_classification(std::span<const TensorSpec> inputs);

/// Throws unless `inputs`, those from `first` on, are a row's largest logit and sum of exp for each label.
void expect_softmax(std::span<const TensorSpec> inputs, size_t first, const TensorSpec& labels);

/// The target of a row of logits: `label`, or both labels by their weights.
struct SoftmaxTarget {
  int32_t label, other;
  float mix_weight;  ///< of `label`; the other has the rest

  /// From the logarithm of the row's sum of exp(x), the logits of both labels and the mean of all.
  template <class T>
  TRAINER_HD T loss(T log_sum, T of_label, T of_other, T mean, T smoothing) const {
    const T own = mix_weight == 1 ? of_label : of_label + (T(1) - T(mix_weight)) * (of_other - of_label);
    return log_sum - (T(1) - smoothing) * own - smoothing * mean;
  }
  /// d loss / d logit of class c, which has the softmax p; `even` = smoothing / classes.
  template <class T>
  TRAINER_HD T gradient(int32_t c, T p, T even, T smoothing) const {
    const T parts = (c == label ? T(mix_weight) : T(0)) + (c == other ? T(1) - T(mix_weight) : T(0));
    return p - even - (T(1) - smoothing) * parts;
  }
};

/// logits (N, C), labels i32 (N), weights (N) -> loss (1), the weighted sum over samples of
///   l = -(1 - s) log p[label] - s / C * sum_c log p[c],   p = softmax(logits), s = label smoothing.
/// With weights 1 / N it is the mean. The gradient reads two more outputs of the labels' shape: the largest
/// logit of each row (NaN if it has one), and the row's sum of exp(x - largest). Other labels i32 (N) and mix
/// weights m (N), if given, replace log p[label] by m * log p[label] + (1 - m) * log p[other]. logits (N, T,
/// C) and labels (N, T), or logits (N, C, H, W) and labels (N, H, W): l is replaced by its mean over a
/// sample's positions. Ranks that share the classes cannot compute it: exchange_logits replaces it then.
class CrossEntropy final : public Operation {
 public:
  enum : size_t {
    kLogits,
    kLabels,
    kWeights,
    kOtherLabels,  ///< or absent as the next one is
    kMixWeights,
    kInputs
  };
  enum : size_t { kLoss, kLargest, kExpSum };

  explicit CrossEntropy(double smoothing, std::optional<ClassCut> classes = {})
      : label_smoothing(smoothing), cut(classes) {}
  std::string_view name() const override { return "cross_entropy"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t input) const override {
    return input == kLogits ? InputType::as_made : InputType::f32;
  }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  std::optional<size_t> judged_input() const override { return kLogits; }
  std::optional<FeatureCut> feature_cut(std::span<const TensorSpec>) const override {
    return FeatureCut{.inputs = {kLogits}, .ends = true};
  }
  std::shared_ptr<const Operation> on_part(const SharedPart& part) const override;

  const double label_smoothing;
  const std::optional<ClassCut> cut;  ///< of the logits
};

/// dloss (1), then cross_entropy's inputs, then its second and third output -> dlogits = dloss * weight /
/// positions * (p - target), where target = (1 - s) (m onehot(label) + (1 - m) onehot(other)) + s / C.
class CrossEntropyBackward final : public Operation {
 public:
  enum : size_t { kDloss, kLogits, kLabels, kWeights, kOtherLabels, kMixWeights, kLargest, kExpSum, kInputs };
  enum : size_t { kDlogits };

  explicit CrossEntropyBackward(double smoothing, std::optional<ClassCut> classes = {})
      : label_smoothing(smoothing), cut(classes) {}
  std::string_view name() const override { return "cross_entropy_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t) const override { return input == kLogits; }

  const double label_smoothing;
  const std::optional<ClassCut> cut;  ///< of the logits; the gradient of padding is zero
};

/// logits (N, C), labels (N), weights (N) -> (1), the weighted number of samples with their label among the k
/// largest logits. Among equal logits the lower class comes first; NaN is never among them.
/// logits (N, T, C) or (N, C, H, W): each sample counts as the share of its positions. Positions with the
/// label `ignored` are never hits.
class TopK final : public Operation {
 public:
  enum : size_t { kLogits, kLabels, kWeights, kInputs };
  enum : size_t { kHits };

  explicit TopK(int64_t count, int32_t ignored_label = kNoLabel, std::optional<ClassCut> classes = {})
      : k(count), ignored(ignored_label), cut(classes) {}
  std::string_view name() const override { return "top_k"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t input) const override {
    return input == kLogits ? InputType::as_made : InputType::f32;
  }

  std::optional<FeatureCut> feature_cut(std::span<const TensorSpec>) const override {
    return FeatureCut{.inputs = {kLogits}, .ends = true};
  }
  std::shared_ptr<const Operation> on_part(const SharedPart& part) const override;

  const int64_t k;
  const int32_t ignored;
  const std::optional<ClassCut> cut;  ///< of the logits: exchange_logits replaces it then
};

}  // namespace trainer
