// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/table.h"

#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/csv.h"
#include "core/data/tables/preparation.h"
#include "core/data/tables/source.h"
#include "core/data/tables/table_text.h"
#include "core/data/tables/time.h"
#include "core/data/tables/window.h"

namespace {

using namespace trainer;

std::vector<std::vector<std::string>> records_of(CsvReader reader) {
  std::vector<std::vector<std::string>> records;
  for (CsvRow row; reader.next(row);) records.push_back(row.texts());
  return records;
}

/// Parts have the records of the whole, if that can be read.
void check_parts(std::string_view text) {
  std::vector<std::vector<std::string>> expected, found;
  try {
    expected = records_of(CsvReader(text, "t.csv"));
  } catch (const Error&) {
    return;
  }
  if (expected.empty()) return;
  expected.erase(expected.begin());
  for (const TablePart& part : divide_table(text, 3, 16)) {
    auto records = records_of(CsvReader(part.text, "t.csv", ',', part.line));
    if (static_cast<int64_t>(records.size()) > part.records) std::abort();
    found.insert(found.end(), records.begin(), records.end());
  }
  if (found != expected) std::abort();
}

void check_table(const Table& table, const TableRequest& request) {
  std::vector<int64_t> rows(static_cast<size_t>(table.rows));
  std::iota(rows.begin(), rows.end(), 0);
  const std::string text = to_json(prepare_table(table, rows, request, 1));
  const auto back = parse_preparation(text);
  if (!back || to_json(*back) != text) std::abort();
}

/// Windows are one step apart, and stay in one series.
void check_windows(const Table& table, const WindowKeys& keys) {
  const TimeStep step = commonest_step(table.times, table.series_ends, table.columns.time_form);
  const std::vector<SeriesPart> parts = at_the_end(table, 0.5);
  const Windows windows = find_windows(table, keys, step, parts, true);
  for (const int64_t first : windows.first) {
    for (int64_t row = first; row < first + windows.length + windows.horizon - 1; ++row) {
      const auto at = static_cast<size_t>(row);
      if (table.series_name(row) != table.series_name(row + 1)) std::abort();
      if (!step.leads(table.times.at(at), table.times.at(at + 1))) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_parts(text);
  // The first byte chooses what is wanted of the table.
  TableRequest request{.targets = static_cast<TargetUse>(data[0] % 4),
                       .origin_of = [](const std::string& key) {
                         return Origin{{}, key};
                       }};
  request.keys.target = {"y"};
  request.keys.empty_target = data[0] % 8 < 4 ? "drop" : "error";
  request.keys.clip = data[0] % 16 < 8 ? 0.1 : 0;
  request.keys.missing = data[0] % 32 < 16 ? "mean" : "median";
  const bool has_windows = data[0] >= 128;
  if (has_windows) {
    request.keys.window = {.time = "t", .by = {"k"}, .length = 2};
    if (data[0] % 64 < 32) request.keys.missing = TableKeys::kPrevious;
  }
  try {
    const auto table = parse_table({{text, "t.csv"}}, request, 1);
    check_table(*table, request);
    if (has_windows) check_windows(*table, request.keys.window);
  } catch (const Error& error) {
    if (error.code() != ExitCode::data && error.code() != ExitCode::recipe) std::abort();
  }
  return 0;
}
