// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/table_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/printable.h"

namespace trainer {
namespace {

constexpr size_t kShownTexts = 4;

std::string texts_of(const ColumnStatistics& column, size_t most) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(most, column.texts.size()); ++i)
    shown.push_back(fmt::format("{:.30} {}", one_line(column.texts[i].first), column.texts[i].second));
  const size_t more = column.texts.size() - shown.size();
  return fmt::format("{} different: {}{}", column.texts.size(), fmt::join(shown, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

std::string values_of(const ColumnStatistics& column) {
  if (column.use == "time") return fmt::format("{} to {}", column.first, column.last);
  if (!column.texts.empty()) return texts_of(column, kShownTexts);
  return fmt::format("{:.6g} to {:.6g}, mean {:.6g}, deviation {:.6g}, median {:.6g}", column.least,
                     column.most, column.mean, column.deviation, column.median);
}

}  // namespace

std::string column_text(const std::string& name, const TableSource& source) {
  const std::vector<ColumnStatistics> columns = measure_columns(source);
  size_t width = 6;
  for (const ColumnStatistics& column : columns) width = std::max(width, one_line(column.name).size());
  std::string text = fmt::format("{}: {} rows", name, source.samples().rows.size());
  if (const auto& windows = source.samples().windows)
    text += fmt::format(", {} windows of {} rows, {} apart{}", source.size(), windows->length,
                        windows->step.text(), windows->left_out_text());
  text += fmt::format("\n  {:<{}}  {:<8}  {:>8}  values\n", "column", width, "use", "missing");
  for (const ColumnStatistics& column : columns)
    text += fmt::format("  {:<{}}  {:<8}  {:>8}  {}\n", one_line(column.name), width, column.use,
                        column.missing, values_of(column));
  return text;
}

Json column_json(const TableSource& source) {
  Json columns = Json::array();
  for (const ColumnStatistics& column : measure_columns(source)) {
    Json each{{"name", column.name}, {"use", column.use}, {"missing", column.missing}};
    if (column.use == "time") {
      each["first"] = column.first;
      each["last"] = column.last;
    } else if (column.use == "number" || column.use == "target") {
      each["min"] = column.least;
      each["max"] = column.most;
      each["mean"] = column.mean;
      each["std"] = column.deviation;
      each["median"] = column.median;
    } else {
      Json& texts = each["values"] = Json::object();
      for (const auto& [text, count] : column.texts) texts.add(text, count);
    }
    columns.push_back(std::move(each));
  }
  Json report{{"rows", source.samples().rows.size()}, {"columns", columns}};
  if (const auto& windows = source.samples().windows)
    report["windows"] = Json{{"count", source.size()},
                             {"length", windows->length},
                             {"step", windows->step.text()},
                             {"across_gaps", windows->across_gaps},
                             {"without_target", windows->without_target}};
  return report;
}

}  // namespace trainer
