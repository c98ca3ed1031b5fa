// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/statistics.h"

#include <algorithm>
#include <cmath>

namespace trainer {
namespace {

const char* use_of(const TableColumns& columns, size_t column) {
  if (columns.label == column) return "class";
  if (columns.group == column) return "group";
  if (std::ranges::find(columns.targets, column) != columns.targets.end()) return "target";
  return columns.all[column].use == TableColumns::Use::number ? "number" : "category";
}

void measure_numbers(const TableSource& source, size_t place, ColumnStatistics& found) {
  std::vector<float> values;
  for (int64_t i = 0; i < source.size(); ++i) {
    const float value = source.table().numbers_of(source.row_of(i))[place];
    if (value == value) values.push_back(value);
  }
  found.missing = source.size() - static_cast<int64_t>(values.size());
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
  for (int64_t i = 0; i < source.size(); ++i) {
    const int32_t code = source.table().codes_of(source.row_of(i))[place];
    ++(code == Table::kNoCode ? found.missing : counts[static_cast<size_t>(code)]);
  }
  for (size_t i = 0; i < words.size(); ++i)
    if (counts[i] > 0) found.texts.emplace_back(words[i], counts[i]);
  std::ranges::stable_sort(found.texts, std::greater<>(), [](const auto& text) { return text.second; });
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
    } else {
      measure_texts(source, each.place, found);
    }
  }
  return all;
}

}  // namespace trainer
