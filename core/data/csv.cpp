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
    : left_(text), file_(std::move(file)), separator_(separator) {
  if (left_.starts_with(kByteOrderMark)) left_.remove_prefix(kByteOrderMark.size());
}

void CsvReader::fail(int64_t line, const std::string& message) const {
  throw Error(ExitCode::data, fmt::format("{}:{}: {}", one_line(file_), line, message));
}

bool CsvReader::next(CsvRow& row) {
  if (left_.empty()) return false;
  row.fields.clear();
  row.line = line_;
  do {
    std::string& field = row.fields.emplace_back();
    if (left_.starts_with('"')) {
      read_quoted(field);
    } else {
      read_plain(field);
    }
  } while (!ends_record());
  return true;
}

void CsvReader::read_quoted(std::string& field) {
  const int64_t begin = line_;
  left_.remove_prefix(1);
  for (;;) {
    const size_t quote = left_.find('"');
    if (quote == std::string_view::npos) fail(begin, "a quoted field that does not end");
    field += left_.substr(0, quote);
    line_ += std::count(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(quote), '\n');
    left_.remove_prefix(quote + 1);
    if (!left_.starts_with('"')) return;
    field += '"';
    left_.remove_prefix(1);
  }
}

void CsvReader::read_plain(std::string& field) {
  const std::array<char, 3> ends = {separator_, '\r', '\n'};
  const size_t end = std::min(left_.find_first_of({ends.data(), ends.size()}), left_.size());
  field = left_.substr(0, end);
  if (field.find('"') != std::string::npos)
    fail(line_, "a quote within a field; put the whole field in quotes, and double those within");
  left_.remove_prefix(end);
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
