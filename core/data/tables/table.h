// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/large_vector.h"
#include "core/data/tables/columns.h"

namespace trainer {

/// The rows of the files of a table, as numbers.
struct Table {
  static constexpr int32_t kNoCode = -1;

  TableColumns columns;
  int64_t rows = 0;
  LargeVector<float> numbers;                   ///< (rows, row_numbers); NaN: missing
  LargeVector<int32_t> codes;                   ///< (rows, row_codes), places in `words`; kNoCode: missing
  std::vector<std::vector<std::string>> words;  ///< of each column of codes: its different texts, ascending
  std::vector<std::string> texts;               ///< of each row in columns.text
  std::vector<std::string> ids;                 ///< of each row, if a column of them was asked for
  /// Of each row, if samples are windows. Rows are then in the order of their series and times; see series.h.
  std::vector<double> times;
  std::vector<int64_t> series_ends;  ///< after the last row of each series
  std::vector<int64_t> file_order;   ///< of each row its number in the files, if that is another one
  std::vector<bool> was_missing;     ///< (rows, numbers), those with the value before; empty: none has
  int64_t without_target = 0;        ///< rows that were left out
  std::vector<std::string> files;
  std::vector<int64_t> file_rows;  ///< of each file

  std::span<const float> numbers_of(int64_t row) const {
    const size_t count = columns.row_numbers();
    return std::span(numbers).subspan(static_cast<size_t>(row) * count, count);
  }
  std::span<const int32_t> codes_of(int64_t row) const {
    const size_t count = columns.row_codes();
    return std::span(codes).subspan(static_cast<size_t>(row) * count, count);
  }
  bool is_missing(int64_t row, size_t place) const {
    const float value = numbers_of(row)[place];
    const size_t count = columns.numbers.size();
    return value != value ||
           (!was_missing.empty() && place < count && was_missing[static_cast<size_t>(row) * count + place]);
  }
  /// The texts that name a row's series, "EWR" or "EWR, 3"; empty if there is one series.
  std::string series_name(int64_t row) const;
  int64_t bytes() const;
  /// "flights.csv:17", the beginning of a row; reads the file again.
  std::string place_of(int64_t row) const;
};

/// The text of a file.
struct NamedText {
  std::string_view text;
  std::string file;
};

/// As read_table, of texts that are there; they must outlive the call.
std::shared_ptr<const Table> parse_table(const std::vector<NamedText>& texts, const TableRequest& request,
                                         int64_t threads);

/// Reads CSV or TSV files with the same columns, perhaps gzip, one after another; several threads share each.
/// Blank lines do not count. Throws Error: exit 78 if a file is missing or a key names no column, 65 with
/// file, line and column otherwise.
std::shared_ptr<const Table> read_table(const std::vector<std::string>& files, const TableRequest& request,
                                        int64_t threads);

}  // namespace trainer
