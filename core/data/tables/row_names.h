// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/data/csv.h"
#include "core/data/tables/table.h"

namespace trainer {

/// Reads a file of a table again, and calls `visit` with the record of each of its rows, in order, until that
/// returns false.
void visit_rows(const Table& table, size_t file, const std::function<bool(const CsvRow&)>& visit);

/// How lists name the rows of a table: "part.csv:17", the file below the folder of all and the line that the
/// row begins on, or "COLUMN=TEXT", the row's text in a column. Reads the files again when it is first asked.
/// For one thread.
class RowNames {
 public:
  explicit RowNames(std::shared_ptr<const Table> table);

  /// By the column's text or, if the column is empty or another row has the same text there, by the line.
  /// Throws Error (exit 64) if there is no such column.
  std::string name(int64_t row, const std::string& column) const;
  /// Nothing if no row has this name. Throws Error (exit 65) if it is a text that several rows have.
  std::optional<int64_t> find(std::string_view name) const;
  /// What find() expects, for an error.
  std::string expected() const;

 private:
  struct Texts {
    std::vector<std::string> of_row;
    std::unordered_map<std::string_view, int64_t> row_of;  ///< of those that a single row has
  };
  const std::vector<int64_t>& lines() const;
  const Texts& texts(size_t column) const;
  std::optional<size_t> column_named(std::string_view name) const;
  std::string place(int64_t row) const;
  struct ColumnText {
    size_t column;
    std::string_view text;
  };
  std::optional<ColumnText> split(std::string_view name) const;  ///< at the first sign after a column's name
  std::optional<int64_t> row_at(std::string_view place) const;
  std::optional<int64_t> find_text(size_t column, std::string_view text) const;

  std::shared_ptr<const Table> table_;
  std::vector<std::string> files_;  ///< below the folder of all
  mutable std::vector<int64_t> lines_;
  mutable std::map<size_t, Texts> texts_;  ///< of a column
};

}  // namespace trainer
