// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/row_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/tables/number.h"
#include "core/data/tables/table_text.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Paths below the deepest folder that has all of them, if there is one.
std::vector<std::string> below_common_folder(const std::vector<std::string>& files) {
  fs::path folder = fs::path(files.front()).parent_path();
  const auto has = [&](const std::string& file) {
    const fs::path parent = fs::path(file).parent_path();
    return std::mismatch(folder.begin(), folder.end(), parent.begin(), parent.end()).first == folder.end();
  };
  while (!std::ranges::all_of(files, has))
    folder = folder.has_relative_path() ? folder.parent_path() : fs::path();
  std::vector<std::string> names;
  for (const std::string& file : files)
    names.push_back(folder.empty() ? file : fs::path(file).lexically_relative(folder).string());
  return names;
}

/// Rows of a file before this one.
int64_t first_row(const Table& table, size_t file) {
  int64_t row = 0;
  for (size_t i = 0; i < file; ++i) row += table.file_rows[i];
  return row;
}

size_t file_of(const Table& table, int64_t row) {
  size_t file = 0;
  while (file + 1 < table.files.size() && row >= table.file_rows[file]) row -= table.file_rows[file++];
  return file;
}

/// Calls `visit` for the rows of all files.
void visit_all_rows(const Table& table, const std::function<void(const CsvRow&)>& visit) {
  for (size_t file = 0; file < table.files.size(); ++file) {
    int64_t rows = 0;
    visit_rows(table, file, [&](const CsvRow& record) {
      visit(record);
      return ++rows <= table.file_rows[file];
    });
    if (rows == table.file_rows[file]) continue;
    throw Error(ExitCode::data, fmt::format("{}: the file changed while it was read; it had {} rows before",
                                            one_line(table.files[file]), table.file_rows[file]));
  }
}

}  // namespace

void visit_rows(const Table& table, size_t file, const std::function<bool(const CsvRow&)>& visit) {
  const TableColumns& columns = table.columns;
  const TableText text(table.files[file]);
  CsvReader reader(text.text(), table.files[file], columns.separator);
  CsvRow record;
  reader.next(record);  // the header
  const auto is_empty = [&](size_t column) { return is_missing_value(record.fields[column]); };
  const auto is_left_out = [&] {
    if (record.fields.size() != columns.all.size()) return true;  // blank
    if (columns.time) return false;                               // rows of series stay
    return std::ranges::any_of(columns.targets, is_empty) || (columns.label && is_empty(*columns.label));
  };
  while (reader.next(record)) {
    if (!is_left_out() && !visit(record)) return;
  }
}

RowNames::RowNames(std::shared_ptr<const Table> table)
    : table_(std::move(table)), files_(below_common_folder(table_->files)) {}

std::string RowNames::name(int64_t row, const std::string& column) const {
  if (column.empty()) return place(row);
  const std::optional<size_t> found = column_named(column);
  if (!found)
    throw Error(ExitCode::usage, fmt::format("--id: there is no column '{}' in {}", one_line(column),
                                             one_line(table_->files.front())));
  const Texts& all = texts(*found);
  const std::string& text = all.of_row[static_cast<size_t>(row)];
  std::string name = fmt::format("{}={}", column, text);
  // A list has a line for each name, and may read "p=1=x" as a text of column p.
  const bool is_one_line = name.find('\n') == std::string::npos && !name.ends_with('\r');
  const bool is_text_of_it = !row_at(name) && split(name)->column == *found;
  return all.row_of.at(text) == row && is_one_line && is_text_of_it ? name : place(row);
}

std::optional<int64_t> RowNames::find(std::string_view name) const {
  if (const auto row = row_at(name)) return row;
  const auto found = split(name);
  return found ? find_text(found->column, found->text) : std::nullopt;
}

std::optional<RowNames::ColumnText> RowNames::split(std::string_view name) const {
  // A column's name may have the sign, too.
  for (size_t sign = name.find('='); sign != std::string_view::npos; sign = name.find('=', sign + 1)) {
    if (const auto column = column_named(name.substr(0, sign)))
      return ColumnText{.column = *column, .text = name.substr(sign + 1)};
  }
  return std::nullopt;
}

std::string RowNames::expected() const {
  return fmt::format("{}:LINE, the line on which a row begins, or COLUMN=TEXT, its text in a column",
                     files_.size() == 1 ? one_line(files_.front()) : "FILE");
}

const std::vector<int64_t>& RowNames::lines() const {
  if (!lines_.empty()) return lines_;
  std::vector<int64_t> lines;
  visit_all_rows(*table_, [&](const CsvRow& record) { lines.push_back(record.line); });
  return lines_ = std::move(lines);
}

const RowNames::Texts& RowNames::texts(size_t column) const {
  if (const auto known = texts_.find(column); known != texts_.end()) return known->second;
  std::vector<std::string> of_row;
  visit_all_rows(*table_, [&](const CsvRow& record) { of_row.emplace_back(record.fields[column]); });
  Texts& texts = texts_[column];
  texts.of_row = std::move(of_row);
  constexpr int64_t kSeveral = -1;
  for (size_t row = 0; row < texts.of_row.size(); ++row) {
    const std::string& text = texts.of_row[row];
    const auto [known, is_first] = texts.row_of.emplace(text, static_cast<int64_t>(row));
    if (!is_first || is_missing_value(text)) known->second = kSeveral;
  }
  return texts;
}

std::optional<size_t> RowNames::column_named(std::string_view name) const {
  const auto found = std::ranges::find(table_->columns.all, name, &TableColumns::Column::name);
  if (found == table_->columns.all.end()) return std::nullopt;
  return static_cast<size_t>(found - table_->columns.all.begin());
}

std::string RowNames::place(int64_t row) const {
  return fmt::format("{}:{}", files_[file_of(*table_, row)], lines()[static_cast<size_t>(row)]);
}

std::optional<int64_t> RowNames::row_at(std::string_view place) const {
  const size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view file = place.substr(0, colon), line = place.substr(colon + 1);
  const auto found = std::ranges::find(files_, file);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (found == files_.end() || error != std::errc() || end != line.data() + line.size()) return std::nullopt;
  const auto which = static_cast<size_t>(found - files_.begin());
  const auto begin = lines().begin() + first_row(*table_, which), last = begin + table_->file_rows[which];
  const auto at = std::lower_bound(begin, last, number);
  if (at == last || *at != number) return std::nullopt;
  return at - lines().begin();
}

std::optional<int64_t> RowNames::find_text(size_t column, std::string_view text) const {
  const Texts& all = texts(column);
  const auto found = all.row_of.find(text);
  if (found == all.row_of.end()) return std::nullopt;
  if (found->second >= 0) return found->second;
  const auto row = [&](auto from) { return std::find(from, all.of_row.end(), text) - all.of_row.begin(); };
  const auto first = row(all.of_row.begin()), second = row(all.of_row.begin() + first + 1);
  const std::string what = fmt::format("column '{}'", one_line(table_->columns.all[column].name));
  if (is_missing_value(text))
    throw Error(ExitCode::data, fmt::format("{}: '{:.40}' is a missing value, which names no row; name its "
                                            "line, such as {}",
                                            what, one_line(text), one_line(place(first))));
  throw Error(ExitCode::data,
              fmt::format("{}: several rows have '{:.40}'; name their lines, such as {} and {}", what,
                          one_line(text), one_line(place(first)), one_line(place(second))));
}

}  // namespace trainer
