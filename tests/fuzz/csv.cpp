// SPDX-License-Identifier: Apache-2.0
#include "core/data/csv.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace {

using trainer::CsvRow;

std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  trainer::CsvReader reader(text, "x.csv");
  std::vector<std::vector<std::string>> rows;
  int64_t line = 0;
  for (CsvRow row; reader.next(row); rows.push_back(row.fields)) {
    if (row.fields.empty() || row.line <= line) std::abort();
    line = row.line;
  }
  return rows;
}

/// With every field in quotes.
std::string text_of(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (const std::vector<std::string>& fields : rows) {
    for (const std::string& field : fields) {
      text += &field == fields.data() ? "\"" : ",\"";
      for (const char c : field) text += c == '"' ? std::string(2, c) : std::string(1, c);
      text += '"';
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto rows = rows_of({reinterpret_cast<const char*>(data), size});
    if (rows_of(text_of(rows)) != rows) std::abort();
  } catch (const trainer::Error& error) {
    if (error.code() != trainer::ExitCode::data) std::abort();
    if (!std::string(error.what()).starts_with("x.csv:")) std::abort();
  }
  return 0;
}
