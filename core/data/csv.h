// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// What some programs put before a text in UTF-8.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// A record of a CSV file and the line, from 1, on which it begins.
struct CsvRow {
  std::vector<std::string> fields;
  int64_t line = 0;
};

/// The character that separates the fields of a table's first record: the most frequent one of comma,
/// semicolon and tab outside of quotes; a comma if there is none.
char csv_separator(std::string_view text);

/// The records of a CSV text as RFC 4180 defines it, perhaps with another separator; lines may also end in
/// LF alone, and a byte-order mark may come first. The text must outlive this.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string file, char separator = ',');

  /// The next record; false at the end. Throws Error (exit 65) with file and line if a quoted field does
  /// not end, or if quotes or carriage returns are misplaced.
  bool next(CsvRow& row);

  /// Throws Error (exit 65): "FILE:LINE: message".
  [[noreturn]] void fail(int64_t line, const std::string& message) const;

 private:
  void read_quoted(std::string& field);
  void read_plain(std::string& field);
  bool ends_record();

  std::string_view left_;
  std::string file_;
  char separator_;
  int64_t line_ = 1;
};

}  // namespace trainer
