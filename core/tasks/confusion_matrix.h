// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/tasks/metric.h"

namespace trainer {

/// Classes for which evaluation keeps a confusion matrix: 128 MiB of counts.
constexpr int64_t kMostConfusionClasses = 4096;

/// Scores of one class, as in scikit-learn with zero_division=0: a division by zero gives 0.
struct ClassScores {
  double precision = 0;  ///< correct / predicted
  double recall = 0;     ///< correct / support, the accuracy on samples of this class
  double f1 = 0;         ///< harmonic mean of precision and recall
  double jaccard = 0;    ///< correct / (support + predicted - correct), intersection over union
  int64_t support = 0;   ///< samples (tokens, pixels) with this label
};

/// How many samples, or pixels, with each label were predicted as each class. Integers, so exact in any
/// order.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t classes);

  int64_t classes() const { return classes_; }
  int64_t at(int64_t label, int64_t predicted) const {
    return counts_[static_cast<size_t>(label * classes_ + predicted)];
  }
  /// Of label and class, (classes, classes).
  std::span<int64_t> counts() { return counts_; }
  void clear();
  /// Counts each cell, label * classes + prediction; negative ones stand for nothing.
  void add(std::span<const int32_t> cells);

  int64_t total() const;
  int64_t correct() const;
  std::vector<ClassScores> scores() const;
  std::vector<int64_t> predicted() const;  ///< of each class

 private:
  int64_t classes_;
  std::vector<int64_t> counts_;
};

/// Mean of scores over classes: those that are a label or a prediction, or with `labels_only` those that are
/// a label. 0 where there are none.
double macro_mean(const ConfusionMatrix& matrix, double ClassScores::*score, bool labels_only = false);
/// The same, each class by its support.
double weighted_mean(const ConfusionMatrix& matrix, double ClassScores::*score);

/// macro_precision, macro_recall, macro_f1, balanced_accuracy, mean_iou.
const std::vector<Metric>& confusion_metrics();

/// {"classes": names, where all have one, "matrix": a row for each label, "precision": a number for each
/// class, …}
Json to_json(const ConfusionMatrix& matrix, const std::vector<std::string>& class_names);

}  // namespace trainer
