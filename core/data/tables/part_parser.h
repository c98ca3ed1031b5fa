// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/data/csv.h"
#include "core/data/tables/columns.h"
#include "core/data/tables/table_text.h"

namespace trainer {

/// Numbers the different texts of a column from zero, in the order of their first use.
class ColumnWords {
 public:
  /// `is_lasting`: the text outlives this. Returns the text as it is kept, and its number.
  std::pair<std::string_view, int32_t> number(std::string_view text, bool is_lasting);
  const std::unordered_map<std::string_view, int32_t>& numbers() const { return numbers_; }

 private:
  std::unordered_map<std::string_view, int32_t> numbers_;
  std::deque<std::string> kept_;
};

/// Texts of a column that were numbered of late, by their last bytes: they repeat, and are found without a
/// hash of all their bytes.
class RecentWords {
 public:
  /// As ColumnWords::number.
  int32_t number(std::string_view text, bool is_lasting, ColumnWords& words);

 private:
  static constexpr int kBits = 10;
  std::array<std::pair<std::string_view, int32_t>, size_t{1} << kBits> found_{};
};

/// Where the rows of a part go: memory for as many as TablePart::records.
struct PartMemory {
  float* numbers = nullptr;
  int32_t* codes = nullptr;
};

/// The rows of a part of the text.
struct ParsedPart {
  int64_t rows = 0, without_target = 0;
  std::vector<ColumnWords> words;  ///< of each column of codes
  std::vector<std::string> ids, texts;
  std::vector<double> times;
};

/// Parses the records of a part. Throws Error (exit 65) with file, line and column.
class PartParser {
 public:
  PartParser(const TablePart& part, const std::string& file, const TableColumns& columns,
             const TableRequest& request, const PartMemory& memory);
  ParsedPart parse();

 private:
  size_t take_plain(std::string_view text);
  bool take_plain_number(const char*& at, const char* end, float& value) const;
  std::string_view take_field(const char*& at, const char* end) const;
  bool ends_field(const char* at, const char* end) const {
    return at == end || ends_field_[static_cast<unsigned char>(*at)];
  }
  void take(const CsvRow& row);
  float number_in(const CsvRow& row, size_t column) const;
  int32_t code_in(const CsvRow& row, size_t column);
  int32_t number_of(std::string_view word, bool is_lasting, size_t place) {
    return recent_[place].number(word, is_lasting, found_.words[place]);
  }
  double time_in(const CsvRow& row, size_t column) const;
  bool lacks_target(const CsvRow& row) const;
  [[noreturn]] void fail(const CsvRow& row, size_t column, const std::string& expected) const;

  CsvReader reader_;
  const TableColumns& columns_;
  const TableRequest& request_;
  int64_t records_;  ///< that fit
  std::array<bool, 256> ends_field_{};
  std::vector<RecentWords> recent_;  ///< of each column of codes
  float* numbers_;                   ///< of the row
  int32_t* codes_;
  ParsedPart found_;
};

}  // namespace trainer
