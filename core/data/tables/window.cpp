// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

namespace trainer {
namespace {

bool has_target(const Table& table, int64_t row) {
  const TableColumns& columns = table.columns;
  if (columns.label) return table.codes_of(row)[columns.all[*columns.label].place] != Table::kNoCode;
  return std::ranges::all_of(table.numbers_of(row).subspan(columns.numbers.size()),
                             [](float value) { return value == value; });
}

/// The first row of a series' part for validation.
int64_t border(int64_t begin, int64_t end, double fraction) {
  return end - static_cast<int64_t>(fraction * static_cast<double>(end - begin));
}

}  // namespace

std::vector<SeriesPart> before_the_end(const Table& table, double fraction) {
  std::vector<SeriesPart> parts;
  int64_t begin = 0;
  for (const int64_t end : table.series_ends) {
    parts.push_back({begin, border(begin, end, fraction)});
    begin = end;
  }
  return parts;
}

std::vector<SeriesPart> at_the_end(const Table& table, double fraction) {
  std::vector<SeriesPart> parts;
  int64_t begin = 0;
  for (const int64_t end : table.series_ends) {
    parts.push_back({border(begin, end, fraction), end});
    begin = end;
  }
  return parts;
}

std::vector<int64_t> rows_in(const std::vector<SeriesPart>& parts) {
  std::vector<int64_t> rows;
  for (const auto& [begin, end] : parts) {
    for (int64_t row = begin; row < end; ++row) rows.push_back(row);
  }
  return rows;
}

std::string Windows::left_out_text() const {
  std::vector<std::string> parts;
  if (across_gaps > 0) parts.push_back(fmt::format("{} across gaps in time", across_gaps));
  if (without_target > 0) parts.push_back(fmt::format("{} without a target", without_target));
  return parts.empty() ? "" : fmt::format(", {} left out", fmt::join(parts, " and "));
}

Windows find_windows(const Table& table, const WindowKeys& keys, const TimeStep& step,
                     const std::vector<SeriesPart>& parts, bool with_targets) {
  Windows found{.length = keys.length.value_or(1), .horizon = with_targets ? keys.horizon : 0, .step = step};
  const int64_t stride = with_targets ? keys.stride : 1, rows = found.length + found.horizon;
  for (const auto& [begin, end] : parts) {
    int64_t unbroken = begin;  // since this row there is no gap
    for (int64_t last = begin; last < end; ++last) {
      const double* const time = table.times.data() + last;
      if (last > begin && !step.leads(time[-1], time[0])) unbroken = last;
      const int64_t first = last + 1 - rows;
      if (first < begin || (first - begin) % stride != 0) continue;
      if (first < unbroken) {
        ++found.across_gaps;
      } else if (with_targets && !has_target(table, last)) {
        ++found.without_target;
      } else {
        found.first.push_back(first);
      }
    }
  }
  return found;
}

}  // namespace trainer
