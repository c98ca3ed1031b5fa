// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/column_values.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace trainer {
namespace {

/// The different ones of these, ascending.
template <class T>
std::vector<T> different_of(std::vector<T> values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

template <class T, class U>
int32_t place_among(const std::vector<T>& ascending, const U& value) {
  return static_cast<int32_t>(std::ranges::lower_bound(ascending, value) - ascending.begin());
}

const TableColumns::Column& column_named(const Table& table, const std::string& name) {
  return *std::ranges::find(table.columns.all, name, &TableColumns::Column::name);
}

void read_number_column(std::span<const TableSource* const> parts, ColumnValues& column) {
  std::vector<float> values, known;
  for (const TableSource* part : parts) {
    const size_t place = column_named(part->table(), column.name).place;
    for (int64_t i = 0; i < part->size(); ++i)
      values.push_back(part->table().numbers_of(part->samples().first_row(i))[place] + 0.0f);  // no -0
  }
  std::ranges::copy_if(values, std::back_inserter(known), [](float value) { return value == value; });
  column.numbers = different_of(std::move(known));
  for (const float value : values)
    column.codes.push_back(value == value ? place_among(column.numbers, value) : Table::kNoCode);
}

/// The codes of a part's rows in a column.
std::vector<int32_t> codes_in(const TableSource& part, size_t place) {
  std::vector<int32_t> codes;
  for (int64_t i = 0; i < part.size(); ++i)
    codes.push_back(part.table().codes_of(part.samples().first_row(i))[place]);
  return codes;
}

/// Tables number the texts of their own rows, and may have more than these rows.
void read_text_column(std::span<const TableSource* const> parts, ColumnValues& column) {
  std::vector<std::string> used;
  for (const TableSource* part : parts) {
    const size_t place = column_named(part->table(), column.name).place;
    for (const int32_t code : different_of(codes_in(*part, place)))
      if (code != Table::kNoCode) used.push_back(part->table().words[place][static_cast<size_t>(code)]);
  }
  column.words = different_of(std::move(used));
  for (const TableSource* part : parts) {
    const size_t place = column_named(part->table(), column.name).place;
    std::vector<int32_t> places;
    for (const std::string& word : part->table().words[place])
      places.push_back(place_among(column.words, word));
    for (const int32_t code : codes_in(*part, place))
      column.codes.push_back(code == Table::kNoCode ? code : places[static_cast<size_t>(code)]);
  }
}

ColumnValues::Role role_of(const TableColumns& columns, size_t column) {
  if (columns.group == column) return ColumnValues::Role::group;
  const bool is_target =
      columns.label == column || std::ranges::find(columns.targets, column) != columns.targets.end();
  return is_target ? ColumnValues::Role::target : ColumnValues::Role::input;
}

}  // namespace

std::vector<ColumnValues> column_values(std::span<const TableSource* const> parts) {
  std::vector<ColumnValues> all;
  const TableColumns& columns = parts.front()->table().columns;
  for (size_t c = 0; c < columns.all.size(); ++c) {
    const TableColumns::Column& each = columns.all[c];
    if (each.use == TableColumns::Use::nothing) continue;
    ColumnValues& column = all.emplace_back();
    column.name = each.name;
    column.role = role_of(columns, c);
    column.is_number = each.use == TableColumns::Use::number;
    if (column.is_number) {
      read_number_column(parts, column);
    } else {
      read_text_column(parts, column);
    }
  }
  return all;
}

/// Divides groups by one column after another; rows that are alone are not looked at again.
std::vector<std::vector<size_t>> equal_rows(const std::vector<const ColumnValues*>& columns) {
  if (columns.empty()) return {};
  std::vector<size_t> rows(columns.front()->rows());
  std::iota(rows.begin(), rows.end(), size_t{0});
  std::vector<uint32_t> group(rows.size());
  for (const ColumnValues* column : columns) {
    std::unordered_map<uint64_t, uint32_t> numbers;
    std::vector<size_t> sizes;
    for (const size_t row : rows) {
      const uint64_t key = uint64_t{group[row]} << 32 | static_cast<uint32_t>(column->codes[row]);
      group[row] = numbers.emplace(key, static_cast<uint32_t>(numbers.size())).first->second;
      sizes.resize(numbers.size());
      ++sizes[group[row]];
    }
    std::erase_if(rows, [&](size_t row) { return sizes[group[row]] < 2; });
  }
  std::vector<std::vector<size_t>> groups;
  std::unordered_map<uint32_t, size_t> places;
  for (const size_t row : rows) {
    const size_t place = places.emplace(group[row], groups.size()).first->second;
    if (place == groups.size()) groups.emplace_back();
    groups[place].push_back(row);
  }
  return groups;
}

}  // namespace trainer
