// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/part_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "core/base/printable.h"
#include "core/data/tables/number.h"
#include "core/data/tables/table.h"
#include "core/data/tables/time.h"

namespace trainer {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

bool is_finite(float value) {
  return value - value == 0;
}

bool is_flag(float value) {
  return value == 0 || value == 1;
}

/// Of its last bytes.
size_t hash_of_end(std::string_view text, int bits) {
  uint64_t last = text.size();
  const size_t count = std::min(text.size(), sizeof last);
  std::memcpy(&last, text.data() + text.size() - count, count);
  return static_cast<size_t>(last * 0x9E3779B97F4A7C15U >> (64 - bits));
}

}  // namespace

std::pair<std::string_view, int32_t> ColumnWords::number(std::string_view text, bool is_lasting) {
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return *found;
  if (!is_lasting) text = kept_.emplace_back(text);
  return *numbers_.emplace(text, static_cast<int32_t>(numbers_.size())).first;
}

int32_t RecentWords::number(std::string_view text, bool is_lasting, ColumnWords& words) {
  std::pair<std::string_view, int32_t>& found = found_[hash_of_end(text, kBits)];
  if (found.first != text || text.empty()) found = words.number(text, is_lasting);
  return found.second;
}

PartParser::PartParser(const TablePart& part, const std::string& file, const TableColumns& columns,
                       const TableRequest& request, const PartMemory& memory)
    : reader_(part.text, file, columns.separator, part.line),
      columns_(columns),
      request_(request),
      records_(part.records),
      recent_(columns.row_codes()),
      numbers_(memory.numbers),
      codes_(memory.codes) {
  found_.words.resize(columns.row_codes());
  for (const char c : {columns.separator, '\n', '\r', '"'}) ends_field_[static_cast<unsigned char>(c)] = true;
}

ParsedPart PartParser::parse() {
  CsvRow row;
  while (!reader_.left().empty()) {
    if (found_.rows == records_) reader_.fail(reader_.line(), "the file changed while it was read");
    if (const size_t length = take_plain(reader_.left()); length > 0) {
      reader_.skip_line(length);
    } else {
      reader_.next(row);
      if (row.fields.size() == 1 && row.fields[0].empty() && columns_.all.size() > 1) continue;
      if (row.fields.size() != columns_.all.size())
        reader_.fail(row.line, fmt::format("expected {} fields as in the header, found {}",
                                           columns_.all.size(), row.fields.size()));
      take(row);
      if (lacks_target(row)) {
        ++found_.without_target;
        continue;
      }
      if (columns_.time) found_.times.push_back(time_in(row, *columns_.time));
      if (columns_.text) found_.texts.emplace_back(row.fields[*columns_.text]);
      if (columns_.id) found_.ids.emplace_back(row.fields[*columns_.id]);
    }
    ++found_.rows;
    numbers_ += columns_.row_numbers();
    codes_ += columns_.row_codes();
  }
  return std::move(found_);
}

/// Reads a record without quotes, in which all is as it should be, in one walk, and returns its length with
/// the line's end; 0 for any other, which CsvReader then divides into fields.
size_t PartParser::take_plain(std::string_view text) {
  if (columns_.id || columns_.text) return 0;
  const char *const begin = text.data(), *const end = begin + text.size(), *at = begin;
  for (size_t c = 0; c < columns_.all.size(); ++c) {
    const TableColumns::Column& column = columns_.all[c];
    switch (column.use) {
      case TableColumns::Use::number:
        if (!take_plain_number(at, end, numbers_[column.place])) return 0;
        break;
      case TableColumns::Use::code: {
        const std::string_view field = take_field(at, end);
        codes_[column.place] =
            is_missing_value(field) ? Table::kNoCode : number_of(field, true, column.place);
        break;
      }
      case TableColumns::Use::nothing:
        take_field(at, end);
        break;
      case TableColumns::Use::time:
        return 0;
    }
    const bool is_last = c + 1 == columns_.all.size();
    if (is_last && at != end && *at == '\r') ++at;
    if (at == end || *at++ != (is_last ? '\n' : columns_.separator)) return 0;
  }
  for (const size_t c : columns_.targets) {
    const float value = numbers_[columns_.all[c].place];
    if (!(value == value) || (request_.targets == TargetUse::label_sets && !is_flag(value))) return 0;
  }
  for (const std::optional<size_t>& needed : {columns_.label, columns_.group}) {
    if (needed && codes_[columns_.all[*needed].place] == Table::kNoCode) return 0;
  }
  return static_cast<size_t>(at - begin);
}

/// False for what is neither a number that float32 holds nor missing.
bool PartParser::take_plain_number(const char*& at, const char* end, float& value) const {
  double number = 0;
  if (const char* const stop = parse_digits(at, end, number); stop != nullptr && ends_field(stop, end)) {
    at = stop;
    value = static_cast<float>(number);
    return true;
  }
  const std::string_view field = take_field(at, end);
  if (parse_number(field, number)) {
    value = static_cast<float>(number);
    return is_finite(value);
  }
  value = kMissing;
  return is_missing_value(field);
}

std::string_view PartParser::take_field(const char*& at, const char* end) const {
  const char* const begin = at;
  while (!ends_field(at, end)) ++at;
  return {begin, static_cast<size_t>(at - begin)};
}

void PartParser::take(const CsvRow& row) {
  for (size_t c = 0; c < columns_.all.size(); ++c) {
    const TableColumns::Column& column = columns_.all[c];
    if (column.use == TableColumns::Use::number) {
      numbers_[column.place] = number_in(row, c);
    } else if (column.use == TableColumns::Use::code) {
      codes_[column.place] = code_in(row, c);
    }
  }
  for (size_t i = 0; i < columns_.targets.size(); ++i)
    numbers_[columns_.target_place(i)] = numbers_[columns_.all[columns_.targets[i]].place];
}

float PartParser::number_in(const CsvRow& row, size_t column) const {
  const std::string_view field = row.fields[column];
  double number = 0;
  if (parse_number(field, number)) {
    const auto value = static_cast<float>(number);
    if (is_finite(value)) return value;
    fail(row, column, "a number that float32 holds");
  }
  if (!is_missing_value(field))
    fail(row, column,
         "a number as in the rows before (or name the column in data.table.categorical or ignore)");
  return kMissing;
}

int32_t PartParser::code_in(const CsvRow& row, size_t column) {
  const std::string_view field = row.fields[column];
  if (is_missing_value(field)) return Table::kNoCode;
  return number_of(field, row.unquoted.empty(), columns_.all[column].place);
}

double PartParser::time_in(const CsvRow& row, size_t column) const {
  const std::string_view field = row.fields[column];
  if (columns_.time_form == TimeForm::date) {
    if (const std::optional<double> seconds = parse_date(field)) return *seconds;
    fail(row, column, "a date such as 2013-01-05 or 2013-01-05T14:00, or a number in each row");
  }
  double number = 0;
  if (!parse_number(field, number)) fail(row, column, "a time: a number as in the rows before");
  return number;
}

/// Rows of series stay: those after them read them.
bool PartParser::lacks_target(const CsvRow& row) const {
  std::optional<size_t> empty;
  if (columns_.label && codes_[columns_.all[*columns_.label].place] == Table::kNoCode) empty = columns_.label;
  for (const size_t c : columns_.targets) {
    const float value = numbers_[columns_.all[c].place];
    if (value != value) empty = c;
    if (request_.targets == TargetUse::label_sets && value == value && !is_flag(value))
      fail(row, c, "0 or 1 for a target of loss.name: binary_cross_entropy");
  }
  for (const size_t c : columns_.series) {
    if (codes_[columns_.all[c].place] == Table::kNoCode) fail(row, c, "the name of a series");
  }
  if (columns_.time) return false;
  if (empty && request_.keys.empty_target == "error")
    fail(row, *empty, "a target (data.table.empty_target: drop leaves such rows out)");
  if (columns_.group && codes_[columns_.all[*columns_.group].place] == Table::kNoCode)
    fail(row, *columns_.group, "a value of data.split_by");
  return empty.has_value();
}

void PartParser::fail(const CsvRow& row, size_t column, const std::string& expected) const {
  reader_.fail(row.line,
               fmt::format("column {} '{}': expected {}, found '{:.40}'", column + 1,
                           one_line(columns_.all[column].name), expected, one_line(row.fields[column])));
}

}  // namespace trainer
