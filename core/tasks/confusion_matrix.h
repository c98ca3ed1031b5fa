// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/tasks/metric.h"

namespace trainer {

/// Classes for which evaluation keeps a confusion matrix of labels and predictions: 128 MiB of counts.
constexpr int64_t kMostConfusionClasses = 4096;

/// Scores of one class, as in scikit-learn with zero_division=0: a division by zero gives 0.
struct ClassScores {
  double precision = 0;  ///< correct / predicted
  double recall = 0;     ///< correct / support, the accuracy on samples of this class
  double f1 = 0;         ///< harmonic mean of precision and recall
  double jaccard = 0;    ///< correct / (support + predicted - correct), intersection over union
  int64_t support = 0;   ///< samples (tokens, pixels) with this label
};

/// How often a class was a label, was predicted, and was both.
struct ClassTally {
  int64_t support = 0, predicted = 0, correct = 0;
};

/// How many samples, or pixels, with each label were predicted as each class; of sets of labels, how many
/// samples have each class or not and were predicted to or not. Integers, so exact in any order.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(const ConfusionShape& shape);

  int64_t classes() const { return shape_.classes; }
  bool is_of_sets() const { return shape_.of_sets; }
  int64_t ignored() const { return shape_.ignored; }  ///< see ConfusionShape
  /// Of single labels.
  int64_t at(int64_t label, int64_t predicted) const {
    return counts_[static_cast<size_t>(label * shape_.classes + predicted)];
  }
  /// Of sets: samples that have class c (label 1) or not (0), and were predicted to or not.
  int64_t of_class(int64_t c, int label, int predicted) const {
    return counts_[static_cast<size_t>(4 * c + 2 * label + predicted)];
  }
  /// Of sets: samples, and those with every class right.
  int64_t samples() const { return counts_[counts_.size() - 2]; }
  int64_t exact() const { return counts_[counts_.size() - 1]; }
  /// All counts, which ranks add up.
  std::span<int64_t> counts() { return counts_; }
  void clear();
  /// Counts each cell: label * classes + prediction or, of sets, 4 * class + 2 * label + prediction, with the
  /// cells of a sample together. Negative ones are ignored.
  void add(std::span<const int32_t> cells);

  std::vector<ClassTally> tallies() const;
  int64_t total() const;    ///< labels; equal to the samples for single labels
  int64_t correct() const;  ///< labels that were predicted
  std::vector<ClassScores> scores() const;

 private:
  void add_sets(std::span<const int32_t> cells);

  ConfusionShape shape_;
  std::vector<int64_t> counts_;
};

/// Mean of scores over classes: of single labels those that are a label or a prediction, of sets all, and
/// with `labels_only` those that are a label. 0 if there are none.
double macro_mean(const ConfusionMatrix& matrix, double ClassScores::*score, bool labels_only = false);
/// Mean over the classes seen of intersection over union, without the ignored one: torchmetrics'
/// JaccardIndex.
double mean_iou(const ConfusionMatrix& matrix);
/// As macro_mean, each class by its support.
double weighted_mean(const ConfusionMatrix& matrix, double ClassScores::*score);
/// Of the labels of all classes together.
ClassScores micro_scores(const ConfusionMatrix& matrix);

/// macro_precision, macro_recall, macro_f1, balanced_accuracy, mean_iou.
const std::vector<Metric>& confusion_metrics();
/// For a class of each pixel besides these: dice.
const std::vector<Metric>& mask_metrics();
/// Of sets of labels: accuracy, exact_match, micro_ and macro_ precision, recall and f1.
const std::vector<Metric>& label_set_metrics();

/// {"classes": names, if all have one, "matrix": a row for each label, "precision": a number for each
/// class, …}. Of sets "matrix" has for each class [[true negatives, false positives], [false negatives, true
/// positives]], as scikit-learn's multilabel_confusion_matrix.
Json to_json(const ConfusionMatrix& matrix, const std::vector<std::string>& class_names);

}  // namespace trainer
