// SPDX-License-Identifier: Apache-2.0
#include "core/data/csv.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace trainer {
namespace {

const char* name_of(char separator) {
  return separator == ';' ? "a semicolon" : separator == '\t' ? "a tab" : "a comma";
}

}  // namespace

char csv_separator(std::string_view text) {
  constexpr std::string_view kSeparators = ",;\t";
  std::array<int64_t, kSeparators.size()> count{};
  bool is_quoted = false;
  for (const char c : text) {
    if (c == '"') is_quoted = !is_quoted;
    if (is_quoted) continue;
    if (c == '\n') break;
    if (const size_t which = kSeparators.find(c); which != std::string_view::npos) ++count[which];
  }
  return kSeparators[static_cast<size_t>(std::ranges::max_element(count) - count.begin())];
}

CsvReader::CsvReader(std::string_view text, std::string file, char separator)
    : CsvReader(text, std::move(file), separator, 1) {
  if (left_.starts_with(kByteOrderMark)) left_.remove_prefix(kByteOrderMark.size());
}

CsvReader::CsvReader(std::string_view part, std::string file, char separator, int64_t line)
    : left_(part), file_(std::move(file)), separator_(separator), line_(line) {}

void CsvReader::fail(int64_t line, const std::string& message) const {
  throw Error(ExitCode::data, fmt::format("{}:{}: {}", one_line(file_), line, message));
}

void CsvReader::skip_line(size_t length) {
  left_.remove_prefix(length);
  ++line_;
}

bool CsvReader::next(CsvRow& row) {
  if (left_.empty()) return false;
  row.fields.clear();
  row.unquoted.clear();
  row.line = line_;
  do {
    row.fields.push_back(left_.starts_with('"') ? read_quoted(row) : read_plain());
  } while (!ends_record());
  return true;
}

std::string_view CsvReader::read_quoted(CsvRow& row) {
  const int64_t begin = line_;
  left_.remove_prefix(1);
  std::string* joined = nullptr;  // once there are doubled quotes
  for (;;) {
    const size_t quote = left_.find('"');
    if (quote == std::string_view::npos) fail(begin, "a quoted field that does not end");
    const std::string_view piece = left_.substr(0, quote);
    line_ += std::ranges::count(piece, '\n');
    left_.remove_prefix(quote + 1);
    if (joined != nullptr) *joined += piece;
    if (!left_.starts_with('"')) return joined != nullptr ? *joined : piece;
    if (joined == nullptr) joined = &row.unquoted.emplace_back(piece);
    *joined += '"';
    left_.remove_prefix(1);
  }
}

std::string_view CsvReader::read_plain() {
  const char *const begin = left_.data(), *const end = begin + left_.size(), *at = begin;
  while (at != end && *at != separator_ && *at != '\n' && *at != '\r' && *at != '"') ++at;
  if (at != end && *at == '"')
    fail(line_, "a quote within a field; put the whole field in quotes, and double those within");
  const std::string_view field(begin, static_cast<size_t>(at - begin));
  left_.remove_prefix(field.size());
  return field;
}

/// Takes a field separator or the end of a record.
bool CsvReader::ends_record() {
  if (left_.empty()) return true;
  if (left_.starts_with(separator_)) {
    left_.remove_prefix(1);
    return false;
  }
  const size_t length = left_.starts_with("\r\n") ? 2 : 1;
  if (left_[length - 1] != '\n')
    fail(line_, fmt::format("expected {} or the end of the line after a field", name_of(separator_)));
  left_.remove_prefix(length);
  ++line_;
  return true;
}

}  // namespace trainer
