// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/statistics.h"

#include <algorithm>
#include <cmath>

namespace trainer {
namespace {

const char* use_of(const TableColumns& columns, size_t column) {
  if (columns.label == column) return "class";
  if (columns.group == column) return "group";
  if (columns.time == column) return "time";
  if (std::ranges::find(columns.targets, column) != columns.targets.end()) return "target";
  if (columns.all[column].use == TableColumns::Use::number) return "number";
  return std::ranges::find(columns.categories, column) != columns.categories.end() ? "category" : "series";
}

void measure_numbers(const TableSource& source, size_t place, ColumnStatistics& found) {
  std::vector<float> values;
  const std::vector<int64_t>& rows = source.samples().rows;
  for (const int64_t row : rows) {
    if (!source.table().is_missing(row, place)) values.push_back(source.table().numbers_of(row)[place]);
  }
  found.missing = static_cast<int64_t>(rows.size() - values.size());
  if (values.empty()) return;
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  found.least = values.front();
  found.most = values.back();
  found.median = (static_cast<double>(values[(values.size() - 1) / 2]) + values[values.size() / 2]) / 2;
  for (const float value : values) found.mean += value / count;
  double squares = 0;
  for (const float value : values) squares += (value - found.mean) * (value - found.mean);
  found.deviation = std::sqrt(squares / count);
}

void measure_texts(const TableSource& source, size_t place, ColumnStatistics& found) {
  const std::vector<std::string>& words = source.table().words[place];
  std::vector<int64_t> counts(words.size());
  for (const int64_t row : source.samples().rows) {
    const int32_t code = source.table().codes_of(row)[place];
    ++(code == Table::kNoCode ? found.missing : counts[static_cast<size_t>(code)]);
  }
  for (size_t i = 0; i < words.size(); ++i)
    if (counts[i] > 0) found.texts.emplace_back(words[i], counts[i]);
  std::ranges::stable_sort(found.texts, std::greater<>(), [](const auto& text) { return text.second; });
}

void measure_times(const TableSource& source, ColumnStatistics& found) {
  const auto time = [&](int64_t row) { return source.table().times[static_cast<size_t>(row)]; };
  const std::vector<int64_t>& rows = source.samples().rows;
  if (rows.empty()) return;
  const auto [first, last] = std::ranges::minmax(rows, {}, time);
  found.first = time_text(time(first), source.table().columns.time_form);
  found.last = time_text(time(last), source.table().columns.time_form);
}

}  // namespace

std::vector<ColumnStatistics> measure_columns(const TableSource& source) {
  const TableColumns& columns = source.table().columns;
  std::vector<ColumnStatistics> all;
  for (size_t column = 0; column < columns.all.size(); ++column) {
    const TableColumns::Column& each = columns.all[column];
    if (each.use == TableColumns::Use::nothing) continue;
    ColumnStatistics& found = all.emplace_back();
    found.name = each.name;
    found.use = use_of(columns, column);
    if (each.use == TableColumns::Use::number) {
      measure_numbers(source, each.place, found);
    } else if (each.use == TableColumns::Use::time) {
      measure_times(source, found);
    } else {
      measure_texts(source, each.place, found);
    }
  }
  return all;
}

}  // namespace trainer
