// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/class_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/printable.h"

namespace trainer {
namespace {

constexpr const char* kMacro = "macro mean";
constexpr const char* kMicro = "micro mean";
constexpr const char* kWeighted = "weighted mean";

std::string row(const std::string& name, size_t width, const ClassScores& scores, bool shows_iou) {
  const std::string iou = shows_iou ? fmt::format(" {:>9.4f}", scores.jaccard) : "";
  return fmt::format("{:<{}} {:>9.4f} {:>9.4f} {:>9.4f}{} {:>9}\n", name, width, scores.precision,
                     scores.recall, scores.f1, iou, scores.support);
}

ClassScores means(const ConfusionMatrix& matrix, bool weighted) {
  ClassScores mean{.support = matrix.total()};
  for (double ClassScores::*score : {&ClassScores::precision, &ClassScores::recall, &ClassScores::f1})
    mean.*score = weighted ? weighted_mean(matrix, score) : macro_mean(matrix, score);
  mean.jaccard = weighted ? weighted_mean(matrix, &ClassScores::jaccard) : mean_iou(matrix);
  return mean;
}

}  // namespace

std::string class_report(const ConfusionMatrix& matrix, const std::vector<std::string>& class_names,
                         bool shows_iou) {
  std::vector<std::string> names;
  size_t width = std::string(kWeighted).size();
  for (int64_t c = 0; c < matrix.classes(); ++c) {
    const auto place = static_cast<size_t>(c);
    names.push_back(place < class_names.size() ? one_line(class_names[place]) : std::to_string(c));
    width = std::max(width, names.back().size());
  }
  std::string text = fmt::format("{:<{}} {:>9} {:>9} {:>9}{} {:>9}\n", "class", width, "precision", "recall",
                                 "f1", shows_iou ? fmt::format(" {:>9}", "iou") : "", "support");
  const std::vector<ClassScores> scores = matrix.scores();
  for (size_t c = 0; c < names.size(); ++c) text += row(names[c], width, scores[c], shows_iou);
  if (matrix.is_of_sets()) text += row(kMicro, width, micro_scores(matrix), shows_iou);
  return text + row(kMacro, width, means(matrix, false), shows_iou) +
         row(kWeighted, width, means(matrix, true), shows_iou);
}

}  // namespace trainer
