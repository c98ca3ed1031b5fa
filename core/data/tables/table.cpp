// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/csv.h"
#include "core/data/in_parallel.h"
#include "core/data/tables/part_parser.h"
#include "core/data/tables/row_names.h"
#include "core/data/tables/series.h"
#include "core/data/tables/table_text.h"
#include "core/text/utf8.h"

namespace trainer {
namespace {

void require_same_header(const TableColumns& columns, const std::string& first, std::string_view text,
                         const std::string& file) {
  CsvReader reader(text, file, columns.separator);
  CsvRow header;
  const bool has_header = reader.next(header);
  for (size_t c = 0; has_header && c < columns.all.size() && c < header.fields.size(); ++c) {
    if (header.fields[c] != columns.all[c].name)
      reader.fail(
          1, fmt::format("expected the columns of {}: column {} is '{}' there, and '{}' here",
                         one_line(first), c + 1, one_line(columns.all[c].name), one_line(header.fields[c])));
  }
  if (!has_header || header.fields.size() != columns.all.size())
    reader.fail(1, fmt::format("expected the {} columns of {}, found {}", columns.all.size(), one_line(first),
                               header.fields.size()));
}

/// A part of one of the files, its rows' memory and what was found.
struct Part {
  size_t file = 0;
  TablePart text;
  int64_t first = 0;  ///< row of the memory
  ParsedPart found;
};

/// Parses parts into the memory of a table, closes the gaps between their rows, and numbers the texts of all
/// parts in their order.
class TableMaker {
 public:
  TableMaker(Table& table, const TableRequest& request, int64_t threads)
      : table_(table),
        request_(request),
        threads_(threads),
        row_numbers_(table.columns.row_numbers()),
        row_codes_(table.columns.row_codes()) {}

  void fill(const std::vector<NamedText>& texts) {
    for (size_t file = 0; file < texts.size(); ++file) {
      for (const TablePart& part : divide_table(texts[file].text, threads_)) {
        parts_.push_back({.file = file, .text = part, .first = most_rows_, .found = {}});
        most_rows_ += part.records;
      }
    }
    resize(most_rows_);
    in_parallel(parts_.size(), threads_, [&](size_t p) {
      Part& part = parts_[p];
      const PartMemory memory{.numbers = numbers_at(part.first), .codes = codes_at(part.first)};
      part.found = PartParser(part.text, table_.files[part.file], table_.columns, request_, memory).parse();
    });
    used_.resize(parts_.size());
    in_parallel(parts_.size(), threads_, [&](size_t p) { find_used(p); });
    number_words();
    in_parallel(parts_.size(), threads_, [&](size_t p) { renumber(p); });
    close_gaps();
  }

 private:
  float* numbers_at(int64_t row) { return table_.numbers.data() + static_cast<size_t>(row) * row_numbers_; }
  int32_t* codes_at(int64_t row) { return table_.codes.data() + static_cast<size_t>(row) * row_codes_; }

  void resize(int64_t rows) {
    table_.numbers.resize(static_cast<size_t>(rows) * row_numbers_);
    table_.codes.resize(static_cast<size_t>(rows) * row_codes_);
  }

  /// Calls visit(column of codes, code) for each code of a part's rows that is there.
  template <class Visit>
  void for_each_code(const Part& part, const Visit& visit) {
    int32_t* code = codes_at(part.first);
    for (int64_t row = 0; row < part.found.rows; ++row) {
      for (size_t c = 0; c < row_codes_; ++c, ++code)
        if (*code != Table::kNoCode) visit(c, *code);
    }
  }

  /// A row that was left out, since it has no target, may have texts that no other has.
  void find_used(size_t p) {
    for (const ColumnWords& words : parts_[p].found.words) used_[p].emplace_back(words.numbers().size());
    for_each_code(parts_[p], [&](size_t c, int32_t code) { used_[p][c][static_cast<size_t>(code)] = 1; });
  }

  void renumber(size_t p) {
    for_each_code(parts_[p],
                  [&](size_t c, int32_t& code) { code = places_[p][c][static_cast<size_t>(code)]; });
  }

  /// Lines that are blank, within a quoted field or without a target are no rows.
  void close_gaps() {
    table_.file_rows.assign(table_.files.size(), 0);
    for (Part& part : parts_) {
      const auto rows = static_cast<size_t>(part.found.rows);
      if (table_.rows != part.first) {
        std::copy_n(numbers_at(part.first), rows * row_numbers_, numbers_at(table_.rows));
        std::copy_n(codes_at(part.first), rows * row_codes_, codes_at(table_.rows));
      }
      table_.rows += part.found.rows;
      table_.file_rows[part.file] += part.found.rows;
      table_.without_target += part.found.without_target;
      std::ranges::move(part.found.ids, std::back_inserter(table_.ids));
      std::ranges::move(part.found.texts, std::back_inserter(table_.texts));
      std::ranges::move(part.found.times, std::back_inserter(table_.times));
    }
    resize(table_.rows);
  }

  /// Weights keep the texts of categories as JSON.
  [[noreturn]] void refuse_bytes(size_t place, std::string_view word, const Part& part) const {
    const auto column = std::ranges::find_if(table_.columns.all, [&](const TableColumns::Column& each) {
      return each.use == TableColumns::Use::code && each.place == place;
    });
    throw Error(ExitCode::data,
                fmt::format("{}: column '{}': '{:.40}' is not UTF-8; convert the file: iconv "
                            "-f latin1 -t utf-8",
                            one_line(table_.files[part.file]), one_line(column->name), one_line(word)));
  }

  void number_words() {
    table_.words.resize(row_codes_);
    places_.assign(parts_.size(), std::vector<std::vector<int32_t>>(row_codes_));
    in_parallel(row_codes_, threads_, [&](size_t c) {
      std::map<std::string_view, int32_t> all;
      for (size_t p = 0; p < parts_.size(); ++p) {
        for (const auto& [word, number] : parts_[p].found.words[c].numbers()) {
          if (used_[p][c][static_cast<size_t>(number)] == 0) continue;
          if (!is_utf8(word)) refuse_bytes(c, word, parts_[p]);
          all.emplace(word, 0);
        }
      }
      int32_t place = 0;
      for (auto& [word, number] : all) {
        number = place++;
        table_.words[c].emplace_back(word);
      }
      for (size_t p = 0; p < parts_.size(); ++p) {
        const auto& numbers = parts_[p].found.words[c].numbers();
        places_[p][c].resize(numbers.size());
        for (const auto& [word, number] : numbers) {
          const auto found = all.find(word);
          if (found != all.end()) places_[p][c][static_cast<size_t>(number)] = found->second;
        }
      }
    });
  }

  Table& table_;
  const TableRequest& request_;
  int64_t threads_;
  size_t row_numbers_, row_codes_;
  int64_t most_rows_ = 0;
  std::vector<Part> parts_;
  std::vector<std::vector<std::vector<uint8_t>>>
      used_;  ///< of each part, column of codes and number: a row's
  std::vector<std::vector<std::vector<int32_t>>> places_;  ///< of each part, column of codes and number
};

}  // namespace

int64_t Table::bytes() const {
  size_t bytes = numbers.size() * sizeof(float) + codes.size() * sizeof(int32_t);
  for (const std::vector<std::string>& column : words) {
    for (const std::string& word : column) bytes += sizeof word + word.size();
  }
  for (const std::vector<std::string>* each : {&ids, &texts}) {
    for (const std::string& text : *each) bytes += sizeof text + text.size();
  }
  bytes += times.size() * sizeof(double) + file_order.size() * sizeof(int64_t) + was_missing.size() / 8;
  return static_cast<int64_t>(bytes);
}

std::string Table::series_name(int64_t row) const {
  std::vector<std::string_view> names;
  for (const size_t column : columns.series) {
    const size_t place = columns.all[column].place;
    names.emplace_back(words[place][static_cast<size_t>(codes_of(row)[place])]);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string Table::place_of(int64_t row) const {
  if (!file_order.empty()) row = file_order[static_cast<size_t>(row)];
  size_t file = 0;
  while (file + 1 < files.size() && row >= file_rows[file]) row -= file_rows[file++];
  int64_t line = 0;
  visit_rows(*this, file, [&](const CsvRow& record) {
    line = record.line;
    return row-- > 0;
  });
  return fmt::format("{}:{}", one_line(files[file]), line);
}

std::shared_ptr<const Table> parse_table(const std::vector<NamedText>& texts, const TableRequest& request,
                                         int64_t threads) {
  auto table = std::make_shared<Table>();
  for (const auto& [text, file] : texts) {
    if (table->files.empty()) {
      table->columns = find_table_columns(text, file, request);
    } else {
      require_same_header(table->columns, table->files.front(), text, file);
    }
    table->files.push_back(file);
  }
  TableMaker(*table, request, threads).fill(texts);
  if (table->rows == 0)
    throw Error(ExitCode::data, fmt::format("{}: expected rows after the header, found none{}",
                                            one_line(table->files.front()),
                                            table->without_target > 0 ? " with a target" : ""));
  if (table->columns.time) order_by_time(*table, request);
  return table;
}

std::shared_ptr<const Table> read_table(const std::vector<std::string>& files, const TableRequest& request,
                                        int64_t threads) {
  std::vector<std::unique_ptr<TableText>> texts;
  std::vector<NamedText> named;
  for (const std::string& file : files) {
    texts.push_back(std::make_unique<TableText>(file));
    named.push_back({texts.back()->text(), file});
  }
  std::shared_ptr<const Table> table;
  try {
    table = parse_table(named, request, threads);
  } catch (const Error&) {
    for (const auto& text : texts) text->require_intact();  // otherwise that is the reason
    throw;
  }
  for (const auto& text : texts) text->require_intact();
  return table;
}

}  // namespace trainer
