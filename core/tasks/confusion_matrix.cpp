// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/confusion_matrix.h"

#include <algorithm>
#include <numeric>

#include "core/graph/names.h"

namespace trainer {
namespace {

double ratio(int64_t part, int64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

ClassScores scores_of(const ClassTally& tally) {
  return {.precision = ratio(tally.correct, tally.predicted),
          .recall = ratio(tally.correct, tally.support),
          .f1 = ratio(2 * tally.correct, tally.support + tally.predicted),
          .jaccard = ratio(tally.correct, tally.support + tally.predicted - tally.correct),
          .support = tally.support};
}

Metric confusion_metric(const std::string& name, const std::string& help,
                        double (*of)(const ConfusionMatrix&)) {
  return {.name = name,
          .help = help,
          .direction = Direction::larger,
          .sums = {},
          .matrix = output_name::kConfusionCells,
          .of_matrix = of};
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(const ConfusionShape& shape)
    : shape_(shape), counts_(static_cast<size_t>(shape.counts())) {}

void ConfusionMatrix::clear() {
  std::ranges::fill(counts_, 0);
}

void ConfusionMatrix::add(std::span<const int32_t> cells) {
  if (shape_.of_sets) return add_sets(cells);
  for (const int32_t cell : cells) {
    if (cell >= 0) ++counts_[static_cast<size_t>(cell)];
  }
}

void ConfusionMatrix::add_sets(std::span<const int32_t> cells) {
  const auto classes = static_cast<size_t>(shape_.classes);
  for (size_t first = 0; first + classes <= cells.size(); first += classes) {
    if (cells[first] < 0) continue;
    bool is_exact = true;
    for (const int32_t cell : cells.subspan(first, classes)) {
      ++counts_[static_cast<size_t>(cell)];
      is_exact = is_exact && (cell % 4 == 0 || cell % 4 == 3);
    }
    ++counts_[counts_.size() - 2];
    if (is_exact) ++counts_.back();
  }
}

std::vector<ClassTally> ConfusionMatrix::tallies() const {
  std::vector<ClassTally> all(static_cast<size_t>(shape_.classes));
  for (int64_t c = 0; c < shape_.classes; ++c) {
    ClassTally& own = all[static_cast<size_t>(c)];
    if (shape_.of_sets) {
      own.correct = of_class(c, 1, 1);
      own.support = own.correct + of_class(c, 1, 0);
      own.predicted = own.correct + of_class(c, 0, 1);
      continue;
    }
    own.correct = at(c, c);
    for (int64_t other = 0; other < shape_.classes; ++other) {
      own.support += at(c, other);
      all[static_cast<size_t>(other)].predicted += at(c, other);
    }
  }
  return all;
}

int64_t ConfusionMatrix::total() const {
  const std::vector<ClassTally> all = tallies();
  return std::accumulate(all.begin(), all.end(), int64_t{0},
                         [](int64_t sum, const ClassTally& each) { return sum + each.support; });
}

int64_t ConfusionMatrix::correct() const {
  const std::vector<ClassTally> all = tallies();
  return std::accumulate(all.begin(), all.end(), int64_t{0},
                         [](int64_t sum, const ClassTally& each) { return sum + each.correct; });
}

std::vector<ClassScores> ConfusionMatrix::scores() const {
  std::vector<ClassScores> all;
  for (const ClassTally& tally : tallies()) all.push_back(scores_of(tally));
  return all;
}

double macro_mean(const ConfusionMatrix& matrix, double ClassScores::*score, bool labels_only) {
  double sum = 0;
  int64_t count = 0;
  for (const ClassTally& tally : matrix.tallies()) {
    const int64_t seen = tally.support + (labels_only ? 0 : tally.predicted);
    if (seen == 0 && (labels_only || !matrix.is_of_sets())) continue;
    sum += scores_of(tally).*score;
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

double mean_iou(const ConfusionMatrix& matrix) {
  const std::vector<ClassTally> tallies = matrix.tallies();
  double sum = 0;
  int64_t count = 0;
  for (size_t c = 0; c < tallies.size(); ++c) {
    const bool is_seen = tallies[c].support + tallies[c].predicted > 0;
    if (!is_seen || static_cast<int64_t>(c) == matrix.ignored()) continue;
    sum += scores_of(tallies[c]).jaccard;
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

double weighted_mean(const ConfusionMatrix& matrix, double ClassScores::*score) {
  double sum = 0;
  for (const ClassScores& of_class : matrix.scores())
    sum += of_class.*score * static_cast<double>(of_class.support);
  const int64_t total = matrix.total();
  return total == 0 ? 0 : sum / static_cast<double>(total);
}

ClassScores micro_scores(const ConfusionMatrix& matrix) {
  ClassTally all;
  for (const ClassTally& each : matrix.tallies()) {
    all.support += each.support;
    all.predicted += each.predicted;
    all.correct += each.correct;
  }
  return scores_of(all);
}

namespace {

std::vector<Metric> macro_metrics() {
  return {
      confusion_metric("macro_precision", "mean over classes of the precision, correct / predicted",
                       [](const ConfusionMatrix& m) { return macro_mean(m, &ClassScores::precision); }),
      confusion_metric("macro_recall", "mean over classes of the recall, correct / labelled",
                       [](const ConfusionMatrix& m) { return macro_mean(m, &ClassScores::recall); }),
      confusion_metric("macro_f1", "mean over classes of F1, the harmonic mean of precision and recall",
                       [](const ConfusionMatrix& m) { return macro_mean(m, &ClassScores::f1); }),
  };
}

/// Of every class of every sample.
double accuracy_of_sets(const ConfusionMatrix& matrix) {
  int64_t right = 0;
  for (int64_t c = 0; c < matrix.classes(); ++c) right += matrix.of_class(c, 0, 0) + matrix.of_class(c, 1, 1);
  return ratio(right, matrix.classes() * matrix.samples());
}

}  // namespace

const std::vector<Metric>& confusion_metrics() {
  static const std::vector<Metric> table = [] {
    std::vector<Metric> all = macro_metrics();
    all.push_back(
        confusion_metric("balanced_accuracy", "mean recall over the classes that are a label",
                         [](const ConfusionMatrix& m) { return macro_mean(m, &ClassScores::recall, true); }));
    all.push_back(confusion_metric("mean_iou", "mean over classes of intersection over union (Jaccard index)",
                                   mean_iou));
    return all;
  }();
  return table;
}

const std::vector<Metric>& mask_metrics() {
  static const std::vector<Metric> table = {confusion_metric(
      "dice",
      "mean over classes of the Dice coefficient, 2 intersection / (labelled + predicted), which is F1",
      [](const ConfusionMatrix& m) { return macro_mean(m, &ClassScores::f1); })};
  return table;
}

const std::vector<Metric>& label_set_metrics() {
  static const std::vector<Metric> table = [] {
    std::vector<Metric> all = {
        confusion_metric("accuracy",
                         "of several labels: fraction of all classes of all samples that are right",
                         accuracy_of_sets),
        confusion_metric("exact_match",
                         "of several labels: fraction of samples of which every class is right",
                         [](const ConfusionMatrix& m) { return ratio(m.exact(), m.samples()); }),
        confusion_metric("micro_precision", "of several labels: the precision of all classes together",
                         [](const ConfusionMatrix& m) { return micro_scores(m).precision; }),
        confusion_metric("micro_recall", "of several labels: the recall of all classes together",
                         [](const ConfusionMatrix& m) { return micro_scores(m).recall; }),
        confusion_metric("micro_f1", "of several labels: F1 of all classes together",
                         [](const ConfusionMatrix& m) { return micro_scores(m).f1; }),
    };
    for (Metric& metric : macro_metrics()) all.push_back(std::move(metric));
    return all;
  }();
  return table;
}

namespace {

/// A row for each label; of sets two rows for each class.
Json matrix_rows(const ConfusionMatrix& matrix) {
  Json rows = Json::array();
  const int64_t classes = matrix.classes();
  for (int64_t c = 0; c < classes; ++c) {
    Json row = Json::array();
    if (matrix.is_of_sets()) {
      for (const int label : {0, 1})
        row.push_back(std::vector<int64_t>{matrix.of_class(c, label, 0), matrix.of_class(c, label, 1)});
    } else {
      for (int64_t other = 0; other < classes; ++other) row.push_back(matrix.at(c, other));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Json to_json(const ConfusionMatrix& matrix, const std::vector<std::string>& class_names) {
  std::vector<double> precision, recall, f1, jaccard;
  std::vector<int64_t> support;
  for (const ClassScores& scores : matrix.scores()) {
    precision.push_back(scores.precision);
    recall.push_back(scores.recall);
    f1.push_back(scores.f1);
    jaccard.push_back(scores.jaccard);
    support.push_back(scores.support);
  }
  Json json = Json::object();
  if (static_cast<int64_t>(class_names.size()) == matrix.classes()) json["classes"] = class_names;
  json["matrix"] = matrix_rows(matrix);
  json["precision"] = precision;
  json["recall"] = recall;
  json["f1"] = f1;
  json["iou"] = jaccard;
  json["support"] = support;
  return json;
}

}  // namespace trainer
