// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace trainer {
namespace {

/// Rows of `width` values each, in this order.
template <class Values>
Values in_order(const Values& values, size_t width, const std::vector<int64_t>& order) {
  Values ordered;
  ordered.reserve(values.size());
  for (const int64_t row : order) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * width);
    ordered.insert(ordered.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  return ordered;
}

/// Compares rows by the series that they are in.
class SeriesOrder {
 public:
  explicit SeriesOrder(const Table& table) : table_(table) {
    for (const size_t column : table.columns.series) places_.push_back(table.columns.all[column].place);
  }
  /// Below 0 if the first one's comes before.
  int compare(int64_t row, int64_t other) const {
    const std::span<const int32_t> codes = table_.codes_of(row), others = table_.codes_of(other);
    for (const size_t place : places_) {
      if (codes[place] != others[place]) return codes[place] < others[place] ? -1 : 1;
    }
    return 0;
  }

 private:
  const Table& table_;
  std::vector<size_t> places_;
};

void sort_rows(Table& table) {
  const SeriesOrder series(table);
  std::vector<int64_t> order(static_cast<size_t>(table.rows));
  std::iota(order.begin(), order.end(), 0);
  const auto is_before = [&](int64_t row, int64_t other) {
    const int found = series.compare(row, other);
    return found != 0 ? found < 0
                      : table.times[static_cast<size_t>(row)] < table.times[static_cast<size_t>(other)];
  };
  if (std::ranges::is_sorted(order, is_before)) return;
  std::ranges::stable_sort(order, is_before);
  table.numbers = in_order(table.numbers, table.columns.row_numbers(), order);
  table.codes = in_order(table.codes, table.columns.row_codes(), order);
  table.times = in_order(table.times, 1, order);
  if (!table.ids.empty()) table.ids = in_order(table.ids, 1, order);
  table.file_order = std::move(order);
}

[[noreturn]] void refuse_double(const Table& table, int64_t row) {
  const TableColumns& columns = table.columns;
  const std::string series = table.series_name(row);
  throw Error(
      ExitCode::data,
      fmt::format("{}: column '{}': expected a time that its series{} has once, found {} also at {}; name "
                  "the columns that tell series apart in data.table.window.by",
                  table.place_of(row), one_line(columns.all[*columns.time].name),
                  series.empty() ? "" : fmt::format(" '{:.40}'", one_line(series)),
                  time_text(table.times[static_cast<size_t>(row)], columns.time_form),
                  table.place_of(row - 1)));
}

void find_series(Table& table) {
  const SeriesOrder series(table);
  for (int64_t row = 1; row < table.rows; ++row) {
    if (series.compare(row - 1, row) != 0) {
      table.series_ends.push_back(row);
    } else if (table.times[static_cast<size_t>(row)] == table.times[static_cast<size_t>(row - 1)]) {
      refuse_double(table, row);
    }
  }
  table.series_ends.push_back(table.rows);
}

void fill_with_previous(Table& table) {
  const size_t count = table.columns.numbers.size(), width = table.columns.row_numbers();
  table.was_missing.assign(static_cast<size_t>(table.rows) * count, false);
  int64_t begin = 0;
  for (const int64_t end : table.series_ends) {
    for (auto row = static_cast<size_t>(begin) + 1; row < static_cast<size_t>(end); ++row) {
      for (size_t c = 0; c < count; ++c) {
        float& value = table.numbers[row * width + c];
        if (value == value) continue;
        value = table.numbers[(row - 1) * width + c];
        table.was_missing[row * count + c] = value == value;
      }
    }
    begin = end;
  }
}

}  // namespace

void order_by_time(Table& table, const TableRequest& request) {
  sort_rows(table);
  find_series(table);
  if (request.keys.missing == TableKeys::kPrevious) fill_with_previous(table);
}

}  // namespace trainer
