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

std::string row(const std::string& name, size_t width, const ClassScores& scores) {
  return fmt::format("{:<{}} {:>9.4f} {:>9.4f} {:>9.4f} {:>9}\n", name, width, scores.precision,
                     scores.recall, scores.f1, scores.support);
}

ClassScores means(const ConfusionMatrix& matrix, bool weighted) {
  ClassScores mean{.support = matrix.total()};
  for (double ClassScores::*score : {&ClassScores::precision, &ClassScores::recall, &ClassScores::f1})
    mean.*score = weighted ? weighted_mean(matrix, score) : macro_mean(matrix, score);
  return mean;
}

}  // namespace

std::string class_report(const ConfusionMatrix& matrix, const std::vector<std::string>& class_names) {
  std::vector<std::string> names;
  size_t width = std::string(kWeighted).size();
  for (int64_t c = 0; c < matrix.classes(); ++c) {
    const auto place = static_cast<size_t>(c);
    names.push_back(place < class_names.size() ? one_line(class_names[place]) : std::to_string(c));
    width = std::max(width, names.back().size());
  }
  std::string text =
      fmt::format("{:<{}} {:>9} {:>9} {:>9} {:>9}\n", "class", width, "precision", "recall", "f1", "support");
  const std::vector<ClassScores> scores = matrix.scores();
  for (size_t c = 0; c < names.size(); ++c) text += row(names[c], width, scores[c]);
  if (matrix.is_of_sets()) text += row(kMicro, width, micro_scores(matrix));
  return text + row(kMacro, width, means(matrix, false)) + row(kWeighted, width, means(matrix, true));
}

}  // namespace trainer
