// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// What some programs put before a text in UTF-8.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// A record of a CSV file and the line, from 1, on which it begins.
struct CsvRow {
  CsvRow() = default;
  CsvRow(const CsvRow&) = delete;
  CsvRow& operator=(const CsvRow&) = delete;

  std::vector<std::string_view> fields;  ///< of the text, or of `unquoted`
  int64_t line = 0;
  std::deque<std::string> unquoted;  ///< fields with quotes inside, without those that double them

  std::vector<std::string> texts() const { return {fields.begin(), fields.end()}; }
};

/// The character that separates the fields of a table's first record: the most frequent one of comma,
/// semicolon and tab outside of quotes; a comma if there is none.
char csv_separator(std::string_view text);

/// The records of a CSV text as RFC 4180 defines it, perhaps with another separator; lines may also end in
/// LF alone, and a byte-order mark may come first. The text must outlive this.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string file, char separator = ',');
  /// A part of such a text, from the beginning of a record on this line.
  CsvReader(std::string_view part, std::string file, char separator, int64_t line);

  /// The next record, whose fields are valid until the row is used again; false at the end. Throws Error
  /// (exit 65) with file and line if a quoted field does not end, or if quotes or carriage returns are
  /// misplaced.
  bool next(CsvRow& row);

  /// The text from the next record on, and its line.
  std::string_view left() const { return left_; }
  int64_t line() const { return line_; }
  /// Goes on after a record of this length, which the caller has read: one line with its end.
  void skip_line(size_t length);

  /// Throws Error (exit 65): "FILE:LINE: message".
  [[noreturn]] void fail(int64_t line, const std::string& message) const;

 private:
  std::string_view read_quoted(CsvRow& row);
  std::string_view read_plain();
  bool ends_record();

  std::string_view left_;
  std::string file_;
  char separator_;
  int64_t line_ = 1;
};

}  // namespace trainer
