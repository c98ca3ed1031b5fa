// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tasks/metric.h"

namespace trainer {

/// The scores that are counted: of single labels by softmax or, of sets of labels, each class by sigmoid.
struct ScoreShape {
  int64_t classes = 0;
  bool of_sets = false;
  bool ranks = false;  ///< for "auroc", which needs most of the memory
  int32_t ignored_label = -1;

  /// Classes with counts of their own: of two the second says all.
  int64_t ranked_classes() const { return !ranks ? 0 : !of_sets && classes == 2 ? 1 : classes; }
  /// Intervals of scores: 2^20 for up to 16 classes, fewer for more, so that the counts take at most 256 MiB.
  int64_t bins() const;
  int64_t bytes() const;
};

/// One batch of `evaluate`: logits (N, C), labels (N) or of sets targets (N, C), weights (N), which are 0 for
/// padding.
struct ScoredBatch {
  std::span<const float> logits, labels, targets, weights;
};

/// How well probabilities rank and how honest they are, from counts alone: whole numbers, so exact in any
/// order.
class ScoreCounts {
 public:
  explicit ScoreCounts(const ScoreShape& shape);

  void clear();
  void add(const ScoredBatch& batch);
  /// All counts, which ranks add up.
  std::span<int64_t> counts() { return counts_; }

  /// Area under the receiver operating characteristic, a tie counting half: of two classes that of the
  /// second, else the mean over classes, one against the rest, as scikit-learn's roc_auc_score. Classes that
  /// all samples have, or none, are left out. NaN if none is left, or a logit was NaN.
  double auroc() const;
  /// Expected calibration error (Guo et al., ICML 2017) in 15 equal intervals: the mean distance of
  /// confidence and accuracy, weighted by samples. The confidence is the largest probability; of sets each
  /// probability counts, as for a binary classifier. NaN without samples, or if a logit was NaN.
  double ece() const;

 private:
  /// Of one sample, or one class of a set.
  void add_confidence(double confidence, bool is_right);
  void add_row(std::span<const float> logits, int64_t label);
  void add_set(std::span<const float> logits, std::span<const float> targets);
  void rank(int64_t ranked_class, double log_odds, bool is_positive);
  double auroc_of(int64_t ranked_class) const;

  ScoreShape shape_;
  std::vector<int64_t> counts_;  ///< invalid rows; then for each interval of confidence rows, right ones, sum
                                 ///< of confidence; then for each ranked class and bin negatives, positives
  std::vector<double> odds_;     ///< of a row, while it is added
};

/// These metrics, and auroc and ece.
std::vector<Metric> with_scores(std::vector<Metric> metrics);

}  // namespace trainer
