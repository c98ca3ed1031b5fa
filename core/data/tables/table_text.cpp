// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/table_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/byte_stream.h"
#include "core/data/csv.h"
#include "core/data/data_error.h"
#include "core/data/foreign_content.h"
#include "core/data/in_parallel.h"

namespace trainer {
namespace {

/// Parts of unlike lengths end together.
constexpr int64_t kPartsOfThread = 4;

std::string unpack(ByteStream& stream) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::string text;
  for (size_t size = 0;;) {
    text.resize(size + std::max(kPiece, size));
    const auto room = static_cast<int64_t>(text.size() - size);
    const int64_t got = stream.read(text.data() + size, room);
    size += static_cast<size_t>(got);
    if (got == room) continue;
    text.resize(size);
    text.shrink_to_fit();
    return text;
  }
}

void require_text(const std::string& path, std::string_view text) {
  if (text.starts_with("PAR1")) {
    throw Error(
        ExitCode::data,
        fmt::format("{0}: a Parquet file, and this program reads CSV; convert it: python3 -c \"import "
                    "pandas; pandas.read_parquet('{0}').to_csv('{1}.csv', index=False)\"",
                    one_line(path), one_line(path.substr(0, path.rfind('.')))));
  }
  if (const std::string found = foreign_content(std::as_bytes(std::span(text))); !found.empty())
    fail_in_file(path, 0, "CSV", found);
  const size_t zero = text.substr(0, 4096).find('\0');
  if (zero != std::string_view::npos)
    fail_in_file(path, static_cast<int64_t>(zero), "CSV", "a zero byte; save the table as UTF-8");
}

struct Marks {
  int64_t quotes = 0, lines = 0;
};

/// By the system's search, which is faster than a look at each byte as long as there are few.
int64_t count_of(std::string_view text, char wanted) {
  int64_t count = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + 1)) ++count;
  return count;
}

Marks marks_in(std::string_view text) {
  return {count_of(text, '"'), count_of(text, '\n')};
}

/// After the first line break outside of quotes; all, if there is none.
size_t end_of_record(std::string_view text, bool is_quoted) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') is_quoted = !is_quoted;
    if (text[i] == '\n' && !is_quoted) return i + 1;
  }
  return text.size();
}

}  // namespace

TableText::TableText(const std::string& path) {
  const std::unique_ptr<ByteStream> stream = open_byte_stream(path);
  if (stream->is_compressed()) {
    unpacked_ = unpack(*stream);
    text_ = unpacked_;
  } else {
    file_ = std::make_unique<MappedFile>(path);
    text_ = {reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()};
  }
  require_text(path, text_);
}

void TableText::require_intact() const {
  if (file_) file_->require_intact();
}

/// Quotes before a place tell whether it is in a quoted field: outside of those CsvReader accepts none.
std::vector<TablePart> divide_table(std::string_view text, int64_t threads, size_t least) {
  const size_t header = end_of_record(text, false);
  const std::string_view rows = text.substr(header);
  const int64_t first_line = 1 + marks_in(text.substr(0, header)).lines;
  const auto most = static_cast<size_t>(threads * kPartsOfThread);
  const size_t count = std::clamp<size_t>(rows.size() / least, 1, most), length = rows.size() / count;
  std::vector<Marks> marks(count);
  const auto piece = [&](size_t i) {
    return rows.substr(i * length, i + 1 == count ? std::string_view::npos : length);
  };
  in_parallel(count, threads, [&](size_t i) { marks[i] = marks_in(piece(i)); });
  std::vector<TablePart> parts;
  Marks before{.quotes = 0, .lines = first_line};
  size_t begin = 0;
  int64_t line = first_line;
  for (size_t i = 0; i < count; ++i) {
    before.quotes += marks[i].quotes;
    before.lines += marks[i].lines;
    const size_t border = i + 1 == count ? rows.size() : (i + 1) * length;
    if (border <= begin) continue;  // within a long record
    const size_t rest = end_of_record(rows.substr(border), before.quotes % 2 != 0);
    const size_t end = border + rest;
    const int64_t next_line = before.lines + marks_in(rows.substr(border, rest)).lines;
    const int64_t unended = rows[end - 1] == '\n' ? 0 : 1;
    parts.push_back({rows.substr(begin, end - begin), line, next_line - line + unended});
    begin = end;
    line = next_line;
  }
  return parts;
}

}  // namespace trainer
