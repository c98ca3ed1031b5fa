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
  try {
    check_table(*parse_table({{text, "t.csv"}}, request, 1), request);
  } catch (const Error& error) {
    if (error.code() != ExitCode::data && error.code() != ExitCode::recipe) std::abort();
  }
  return 0;
}
