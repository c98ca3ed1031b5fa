// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>

#include "core/base/math.h"
#include "core/graph/ops/cross_entropy.h"

namespace trainer {

/// What a rank finds in its part of a row of logits for the cross entropy of the whole row.
struct LogitSum {
  enum Field : int { kLargest, kExpSum, kOwn, kOther, kAll, kFields };
  static constexpr float kNone = -std::numeric_limits<float>::max();  ///< the largest of no logits

  float largest = 0;  ///< of the logits; NaN if one is; kNone without any
  float exp_sum = 0;  ///< of exp(x - largest)
  float own = 0;      ///< the label's logit, or 0 if another rank has that
  float other = 0;    ///< the other label's
  float all = 0;      ///< the sum of the logits, each by the weight of its class
};

/// logits (N, C) or (N, T, C) of this rank, labels and other labels as cross_entropy's, weights of all
/// classes or absent -> f32 (rows, kFields). A label may be one to ignore, which no rank has.
class LogitSums final : public Operation {
 public:
  enum : size_t { kLogits, kLabels, kOtherLabels, kClassWeights, kInputs };
  enum : size_t { kSums };

  explicit LogitSums(const ClassCut& classes) : cut(classes) {}
  std::string_view name() const override { return "logit_sums"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const ClassCut cut;
};

/// The sums of all ranks, f32 (ranks, rows, kFields), and labels, weights, other labels and mix weights as
/// cross_entropy's -> its outputs. Adds up in the order of the ranks, so that each gets the same bits.
class CrossEntropyOfRanks final : public Operation {
 public:
  enum : size_t { kSums, kLabels, kWeights, kOtherLabels, kMixWeights, kInputs };
  enum : size_t { kLoss, kLargest, kExpSum };

  CrossEntropyOfRanks(double smoothing, const ClassCut& classes) : label_smoothing(smoothing), cut(classes) {}
  std::string_view name() const override { return "cross_entropy_of_ranks"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const double label_smoothing;
  const ClassCut cut;
};

/// The loss of a row, from all ranks' sums of it. An infinite logit counts only where smoothing reads it.
TRAINER_HD double loss_of_ranks(const LogitSum& whole, const SoftmaxTarget& target, int64_t classes,
                                double smoothing) {
  const double log_sum = std::log(static_cast<double>(whole.exp_sum)) + whole.largest;
  const double mean = smoothing > 0 ? whole.all / static_cast<double>(classes) : 0;
  return target.loss<double>(log_sum, whole.own, whole.other, mean, smoothing);
}

/// The same for cross_entropy_sums without gamma: inputs and outputs are its own, but for the logits.
class CrossEntropySumsOfRanks final : public Operation {
 public:
  enum : size_t { kSums, kLabels, kWeights, kClassWeights, kInputs };

  CrossEntropySumsOfRanks(const CrossEntropySettings& how, const ClassCut& classes)
      : settings(how), cut(classes) {}
  std::string_view name() const override { return "cross_entropy_sums_of_ranks"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const CrossEntropySettings settings;
  const ClassCut cut;
};

/// logits and labels as logit_sums's, the sums of all ranks -> f32 (rows): how many of this rank's classes
/// come before the label, as top_k orders them.
class ClassesBefore final : public Operation {
 public:
  enum : size_t { kLogits, kLabels, kSums, kInputs };
  enum : size_t { kCounts };

  explicit ClassesBefore(const ClassCut& classes) : cut(classes) {}
  std::string_view name() const override { return "classes_before"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override { cut.describe(visit); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const ClassCut cut;
};

/// Those of all ranks, f32 (rows), the sums of all ranks, labels and weights -> top_k's output.
class TopKOfRanks final : public Operation {
 public:
  enum : size_t { kCounts, kSums, kLabels, kWeights, kInputs };
  enum : size_t { kHits };

  TopKOfRanks(int64_t count, int32_t ignored_label, const ClassCut& classes)
      : k(count), ignored(ignored_label), cut(classes) {}
  std::string_view name() const override { return "top_k_of_ranks"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;

  const int64_t k;
  const int32_t ignored;
  const ClassCut cut;
};

/// Rank `r`'s sums of a row, of `rows`.
TRAINER_HD const float* sums_at(const float* sums, int64_t rows, int64_t r, int64_t row) {
  return sums + (r * rows + row) * LogitSum::kFields;
}

/// The ranks' sums of a row as one: `sums` points to all ranks' rows.
TRAINER_HD LogitSum of_all_ranks(const float* sums, int64_t rows, int64_t ranks, int64_t row) {
  LogitSum whole;
  whole.largest = sums_at(sums, rows, 0, row)[LogitSum::kLargest];
  for (int64_t r = 1; r < ranks; ++r) {
    const float largest = sums_at(sums, rows, r, row)[LogitSum::kLargest];
    if (largest > whole.largest || largest != largest) whole.largest = largest;
  }
  for (int64_t r = 0; r < ranks; ++r) {
    const float* of = sums_at(sums, rows, r, row);
    const float exp_sum = of[LogitSum::kExpSum];
    // A rank without classes has a sum of 0 and no largest logit.
    if (exp_sum != 0) {
      const float largest = of[LogitSum::kLargest];
      whole.exp_sum += largest == whole.largest ? exp_sum : exp_sum * math::exp(largest - whole.largest);
    }
    whole.own += of[LogitSum::kOwn];
    whole.other += of[LogitSum::kOther];
    whole.all += of[LogitSum::kAll];
  }
  return whole;
}

}  // namespace trainer
