// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "core/report/html.h"
#include "core/report/readable.h"
#include "core/report/sections.h"

namespace trainer {
namespace {

constexpr size_t kMostClasses = 40;  // classes of a matrix that is drawn
constexpr size_t kMostPairs = 10;    // that are listed
constexpr double kDark = 0.5;        // the share from which a cell's text is light

double cell_at(const Json& row, size_t column) {
  return row.is_array() && column < row.size() && row[column].is_number() ? row[column].number() : 0;
}

/// A row for each label, a column for each prediction.
class Matrix {
 public:
  explicit Matrix(const Json& json) : rows_(json.find("matrix")), classes_(json.find("classes")) {}

  bool is_valid() const { return rows_ != nullptr && rows_->is_array() && !rows_->empty(); }
  /// Of several labels for each image: a matrix of its own for each class.
  bool is_of_sets() const {
    return rows_->items().front().is_array() && !rows_->items().front().empty() &&
           rows_->items().front().items().front().is_array();
  }
  size_t size() const { return rows_->size(); }
  const Json& row(size_t label) const { return (*rows_)[label]; }
  double at(size_t label, size_t prediction) const { return cell_at(row(label), prediction); }

  double total(size_t label) const {
    double sum = 0;
    for (size_t i = 0; i < size(); ++i) sum += at(label, i);
    return sum;
  }
  size_t longest_name() const {
    size_t longest = 0;
    for (size_t i = 0; i < size(); ++i) longest = std::max(longest, name(i).size());
    return longest;
  }
  std::string name(size_t i) const {
    const bool has_name =
        classes_ != nullptr && classes_->is_array() && i < classes_->size() && (*classes_)[i].is_text();
    return has_name ? (*classes_)[i].text() : fmt::format("{}", i);
  }

 private:
  const Json *rows_, *classes_;
};

struct ConfusedPair {
  size_t label, prediction;
  double count;
};

/// The most frequent mistakes, the first of equal ones first.
std::vector<ConfusedPair> worst_pairs(const Matrix& matrix) {
  const auto is_worse = [](const ConfusedPair& a, const ConfusedPair& b) { return a.count > b.count; };
  std::vector<ConfusedPair> worst;
  for (size_t label = 0; label < matrix.size(); ++label) {
    for (size_t prediction = 0; prediction < matrix.size(); ++prediction) {
      const ConfusedPair pair{label, prediction, matrix.at(label, prediction)};
      if (label == prediction || !(pair.count > 0)) continue;
      if (worst.size() == kMostPairs && !is_worse(pair, worst.back())) continue;
      worst.insert(std::ranges::upper_bound(worst, pair, is_worse), pair);
      if (worst.size() > kMostPairs) worst.pop_back();
    }
  }
  return worst;
}

std::string pairs_table(const Matrix& matrix) {
  std::vector<std::vector<std::string>> rows;
  for (const ConfusedPair& pair : worst_pairs(matrix))
    rows.push_back({matrix.name(pair.label), matrix.name(pair.prediction), fmt::format("{:.0f}", pair.count),
                    share_text(pair.count / matrix.total(pair.label))});
  if (rows.empty()) return "<p>No sample is predicted wrongly.</p>\n";
  return "<h3>Most frequent mistakes</h3>\n" +
         html_table({"label", "predicted as", "samples", "of the label"}, rows);
}

std::string recall_text(double right, double all) {
  return all > 0 ? share_text(right / all) : "-";
}

/// A darker cell has more of its label's samples.
std::string matrix_row(const Matrix& matrix, size_t label) {
  std::string html = fmt::format("<th class=\"name\" title=\"{0}\">{0}</th>", escaped(matrix.name(label)));
  const double all = matrix.total(label);
  for (size_t i = 0; i < matrix.size(); ++i) {
    const double count = matrix.at(label, i), share = all > 0 ? std::clamp(count / all, 0.0, 1.0) : 0;
    html += fmt::format("<td style=\"background: rgba(var(--cell), {:.3f}){}\">{:.0f}</td>", share,
                        share > kDark ? "; color: var(--page)" : "", count);
  }
  return html + fmt::format("<td>{}</td></tr>\n", recall_text(matrix.at(label, label), all));
}

std::string drawing(const Matrix& matrix) {
  const size_t size = matrix.size();
  std::string html = fmt::format(
      "<div class=\"wide\"><table class=\"matrix\"><tr><th></th><th></th><th class=\"axis\" "
      "colspan=\"{}\">predicted</th><th></th></tr>\n<tr><th></th><th></th>",
      size);
  // Long names stand upright: the columns are narrow.
  constexpr size_t kShort = 4;
  const bool is_upright = matrix.longest_name() > kShort;
  for (size_t i = 0; i < size; ++i)
    html += fmt::format("<th class=\"{1}\" title=\"{0}\"><span>{0}</span></th>", escaped(matrix.name(i)),
                        is_upright ? "name above" : "name");
  html += "<th>recall</th></tr>\n";
  for (size_t i = 0; i < size; ++i) {
    html += "<tr>";
    if (i == 0)
      html += fmt::format("<th class=\"axis\" rowspan=\"{}\"><span class=\"down\">label</span></th>", size);
    html += matrix_row(matrix, i);
  }
  return html + "</table></div>\n";
}

/// Precision and recall of each class, for several labels of one image.
std::string table_of_sets(const Matrix& matrix) {
  constexpr size_t kMostShown = 200;
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(matrix.size(), kMostShown); ++i) {
    const Json& row = matrix.row(i);
    const bool is_pair = row.is_array() && row.size() == 2;
    const double wrong = is_pair ? cell_at(row[size_t{0}], 1) : 0, missed = is_pair ? cell_at(row[1], 0) : 0;
    const double right = is_pair ? cell_at(row[1], 1) : 0;
    rows.push_back({matrix.name(i), recall_text(right, right + wrong), recall_text(right, right + missed),
                    fmt::format("{:.0f}", right), fmt::format("{:.0f}", wrong),
                    fmt::format("{:.0f}", missed)});
  }
  const std::string note =
      rows.size() < matrix.size()
          ? report_note(fmt::format("{} of {} classes; confusion.json has all.", rows.size(), matrix.size()))
          : "";
  return "<div class=\"wide\">" +
         html_table({"class", "precision", "recall", "right", "wrong", "missed"}, rows) + "</div>\n" + note;
}

/// The classes with the lowest recall, for matrices that are too large to draw.
std::string lowest_recalls(const Matrix& matrix) {
  std::vector<std::pair<double, size_t>> recalls;
  for (size_t i = 0; i < matrix.size(); ++i)
    if (const double all = matrix.total(i); all > 0) recalls.emplace_back(matrix.at(i, i) / all, i);
  std::ranges::sort(recalls);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(recalls.size(), kMostPairs); ++i)
    rows.push_back({matrix.name(recalls[i].second), share_text(recalls[i].first),
                    fmt::format("{:.0f}", matrix.total(recalls[i].second))});
  return rows.empty() ? "" : "<h3>Lowest recall</h3>\n" + html_table({"class", "recall", "samples"}, rows);
}

}  // namespace

std::string confusion_section(const RunFiles& files) {
  if (!files.has_confusion) return "";
  const std::string head = "<h2>Confusion matrix</h2>\n";
  const Json* json = files.confusion.find("confusion");
  const Matrix matrix(json == nullptr ? files.confusion : *json);
  if (json == nullptr || !matrix.is_valid())
    return head + report_note("confusion.json holds no matrix and is left out.");
  if (matrix.is_of_sets()) return head + table_of_sets(matrix);
  if (matrix.size() <= kMostClasses)
    return head + "<div class=\"beside\"><div>" + drawing(matrix) + "</div>\n<div>" + pairs_table(matrix) +
           "</div></div>\n";
  return head +
         fmt::format("<p>{} classes are too many to draw; confusion.json has the numbers.</p>\n",
                     matrix.size()) +
         "<div class=\"beside\"><div>" + pairs_table(matrix) + "</div>\n<div>" + lowest_recalls(matrix) +
         "</div></div>\n";
}

}  // namespace trainer
