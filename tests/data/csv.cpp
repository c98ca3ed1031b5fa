// SPDX-License-Identifier: Apache-2.0
#include "core/data/csv.h"

#include "core/base/error.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using CsvRows = std::vector<std::vector<std::string>>;

CsvRows rows_of(const std::string& text) {
  CsvReader reader(text, "x.csv");
  CsvRows rows;
  for (CsvRow row; reader.next(row);) rows.push_back(row.texts());
  return rows;
}

std::string csv_error(const std::string& text) {
  try {
    rows_of(text);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    return error.what();
  }
  return "";
}

TEST_CASE("CSV: fields as RFC 4180 has them, with LF or CRLF, with or without a byte-order mark") {
  CHECK(rows_of("").empty());
  CHECK(rows_of("a,b") == CsvRows{{"a", "b"}});
  CHECK(rows_of("a,b\n") == CsvRows{{"a", "b"}});
  CHECK(rows_of("\xEF\xBB\xBF"
                "a,b\r\nc,\r\n") == CsvRows{{"a", "b"}, {"c", ""}});
  CHECK(rows_of("a,") == CsvRows{{"a", ""}});
  CHECK(rows_of("a\n\nb") == CsvRows{{"a"}, {""}, {"b"}});
  CHECK(rows_of("\"a,\"\"b\"\"\r\nc\",\" d \"\n,") == CsvRows{{"a,\"b\"\r\nc", " d "}, {"", ""}});
  CHECK(rows_of("\"\"") == CsvRows{{""}});
}

TEST_CASE("CSV: the separator is the most frequent one of the first line, outside of quotes") {
  CHECK(csv_separator("") == ',');
  CHECK(csv_separator("a\nb;c\n") == ',');
  CHECK(csv_separator("a;b\nc,d,e\n") == ';');
  CHECK(csv_separator("\"a;b;c\",d") == ',');
  CHECK(csv_separator("a, b\tc\td") == '\t');
  CsvReader reader("a,b;\"c;d\"\n", "x.csv", ';');
  CsvRow row;
  REQUIRE(reader.next(row));
  CHECK(row.texts() == std::vector<std::string>{"a,b", "c;d"});
}

TEST_CASE("CSV: rows know the line on which they begin") {
  CsvReader reader("a\n\"b\nc\"\r\nd\n", "x.csv");
  std::vector<int64_t> lines;
  for (CsvRow row; reader.next(row);) lines.push_back(row.line);
  CHECK(lines == std::vector<int64_t>{1, 2, 4});
}

TEST_CASE("CSV: what is malformed is refused with file and line") {
  CHECK(csv_error("a,b\n\"c\nd").starts_with("x.csv:2: a quoted field that does not end"));
  CHECK(csv_error("a\nb\"c\"").starts_with("x.csv:2: a quote within a field"));
  CHECK(csv_error("\"a\nb\"c").starts_with("x.csv:2: expected a comma or the end of the line"));
  CHECK(csv_error("a\rb").starts_with("x.csv:1: expected a comma or the end of the line"));
  CHECK(csv_error("a\r").starts_with("x.csv:1: expected a comma or the end of the line"));
}

}  // namespace
}  // namespace trainer
