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

ConfusionMatrix::ConfusionMatrix(int64_t classes)
    : classes_(classes), counts_(static_cast<size_t>(classes * classes)) {}

void ConfusionMatrix::clear() {
  std::ranges::fill(counts_, 0);
}

void ConfusionMatrix::add(std::span<const int32_t> cells) {
  for (const int32_t cell : cells) {
    if (cell >= 0) ++counts_[static_cast<size_t>(cell)];
  }
}

int64_t ConfusionMatrix::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}

int64_t ConfusionMatrix::correct() const {
  int64_t sum = 0;
  for (int64_t c = 0; c < classes_; ++c) sum += at(c, c);
  return sum;
}

std::vector<int64_t> ConfusionMatrix::predicted() const {
  std::vector<int64_t> sums(static_cast<size_t>(classes_));
  for (size_t i = 0; i < counts_.size(); ++i) sums[i % sums.size()] += counts_[i];
  return sums;
}

std::vector<ClassScores> ConfusionMatrix::scores() const {
  const std::vector<int64_t> predictions = predicted();
  std::vector<ClassScores> all(predictions.size());
  for (size_t c = 0; c < all.size(); ++c) {
    const auto row = counts_.begin() + static_cast<std::ptrdiff_t>(c * all.size());
    const int64_t support = std::accumulate(row, row + classes_, int64_t{0}),
                  hits = row[static_cast<std::ptrdiff_t>(c)];
    all[c] = {.precision = ratio(hits, predictions[c]),
              .recall = ratio(hits, support),
              .f1 = ratio(2 * hits, support + predictions[c]),
              .jaccard = ratio(hits, support + predictions[c] - hits),
              .support = support};
  }
  return all;
}

double macro_mean(const ConfusionMatrix& matrix, double ClassScores::*score, bool labels_only) {
  const std::vector<ClassScores> scores = matrix.scores();
  const std::vector<int64_t> predicted = matrix.predicted();
  double sum = 0;
  int64_t count = 0;
  for (size_t c = 0; c < scores.size(); ++c) {
    if (scores[c].support + (labels_only ? 0 : predicted[c]) == 0) continue;
    sum += scores[c].*score;
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

const std::vector<Metric>& confusion_metrics() {
  static const std::vector<Metric> table = {
      confusion_metric("macro_precision", "mean over classes of the precision, correct / predicted",
                       [](const ConfusionMatrix& m) { return macro_mean(m, &ClassScores::precision); }),
      confusion_metric("macro_recall", "mean over classes of the recall, correct / labelled",
                       [](const ConfusionMatrix& m) { return macro_mean(m, &ClassScores::recall); }),
      confusion_metric("macro_f1", "mean over classes of F1, the harmonic mean of precision and recall",
                       [](const ConfusionMatrix& m) { return macro_mean(m, &ClassScores::f1); }),
      confusion_metric("balanced_accuracy", "mean recall over the classes that are a label",
                       [](const ConfusionMatrix& m) { return macro_mean(m, &ClassScores::recall, true); }),
      confusion_metric("mean_iou", "mean over classes of intersection over union (Jaccard index)",
                       [](const ConfusionMatrix& m) { return macro_mean(m, &ClassScores::jaccard); }),
  };
  return table;
}

Json to_json(const ConfusionMatrix& matrix, const std::vector<std::string>& class_names) {
  Json rows = Json::array();
  for (int64_t label = 0; label < matrix.classes(); ++label) {
    Json row = Json::array();
    for (int64_t c = 0; c < matrix.classes(); ++c) row.push_back(matrix.at(label, c));
    rows.push_back(std::move(row));
  }
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
  json["matrix"] = std::move(rows);
  json["precision"] = precision;
  json["recall"] = recall;
  json["f1"] = f1;
  json["iou"] = jaccard;
  json["support"] = support;
  return json;
}

}  // namespace trainer
