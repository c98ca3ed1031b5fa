// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/csv.h"
#include "core/data/in_parallel.h"
#include "core/data/tables/number.h"
#include "core/data/tables/table_text.h"
#include "core/text/utf8.h"

namespace trainer {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

/// Numbers the different texts of a column from zero, in the order of their first use.
class ColumnWords {
 public:
  int32_t number(std::string_view text, bool is_lasting) {
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) return found->second;
    if (!is_lasting) text = kept_.emplace_back(text);
    return numbers_.emplace(text, static_cast<int32_t>(numbers_.size())).first->second;
  }
  const std::unordered_map<std::string_view, int32_t>& numbers() const { return numbers_; }

 private:
  std::unordered_map<std::string_view, int32_t> numbers_;
  std::deque<std::string> kept_;
};

/// The rows of a part of the text.
struct ParsedPart {
  int64_t rows = 0, without_target = 0;
  std::vector<float> numbers;
  std::vector<int32_t> codes;
  std::vector<ColumnWords> words;
  std::vector<std::string> ids;
};

/// Parses the records of a part.
class PartParser {
 public:
  PartParser(const TablePart& part, const std::string& file, const TableColumns& columns,
             const TableRequest& request)
      : reader_(part.text, file, columns.separator, part.line),
        columns_(columns),
        request_(request),
        numbers_(columns.row_numbers(), kMissing),
        codes_(columns.row_codes(), Table::kNoCode) {
    found_.words.resize(codes_.size());
    found_.numbers.reserve(static_cast<size_t>(part.records) * numbers_.size());
    found_.codes.reserve(static_cast<size_t>(part.records) * codes_.size());
  }

  ParsedPart parse() {
    for (CsvRow row; reader_.next(row);) {
      if (row.fields.size() == 1 && row.fields[0].empty() && columns_.all.size() > 1) continue;
      if (row.fields.size() != columns_.all.size())
        reader_.fail(row.line, fmt::format("expected {} fields as in the header, found {}",
                                           columns_.all.size(), row.fields.size()));
      take(row);
    }
    return std::move(found_);
  }

 private:
  void take(const CsvRow& row) {
    for (size_t c = 0; c < columns_.all.size(); ++c) {
      const TableColumns::Column& column = columns_.all[c];
      if (column.use == TableColumns::Use::number) {
        numbers_[column.place] = number_in(row, c);
      } else if (column.use == TableColumns::Use::code) {
        codes_[column.place] = code_in(row, c);
      }
    }
    if (lacks_target(row)) {
      ++found_.without_target;
      return;
    }
    ++found_.rows;
    found_.numbers.insert(found_.numbers.end(), numbers_.begin(), numbers_.end());
    found_.codes.insert(found_.codes.end(), codes_.begin(), codes_.end());
    if (columns_.id) found_.ids.emplace_back(row.fields[*columns_.id]);
  }

  float number_in(const CsvRow& row, size_t c) const {
    const std::string_view field = row.fields[c];
    double number = 0;
    if (parse_number(field, number)) {
      const auto value = static_cast<float>(number);
      if (value - value == 0) return value;
      fail(row, c, "a number that float32 holds");
    }
    if (!is_missing_value(field))
      fail(row, c, "a number as in the rows before (or name the column in data.table.categorical or ignore)");
    return kMissing;
  }

  int32_t code_in(const CsvRow& row, size_t c) {
    const std::string_view field = row.fields[c];
    if (is_missing_value(field)) return Table::kNoCode;
    return found_.words[columns_.all[c].place].number(field, row.unquoted.empty());
  }

  bool lacks_target(const CsvRow& row) const {
    std::optional<size_t> empty;
    if (columns_.label && codes_[columns_.all[*columns_.label].place] == Table::kNoCode)
      empty = columns_.label;
    for (const size_t c : columns_.targets) {
      const float value = numbers_[columns_.all[c].place];
      if (!(value == value)) empty = c;
      const bool is_flag = value == 0 || value == 1;
      if (request_.targets == TargetUse::label_sets && !empty && !is_flag)
        fail(row, c, "0 or 1 for a target of loss.name: binary_cross_entropy");
    }
    if (empty && request_.keys.empty_target == "error")
      fail(row, *empty, "a target (data.table.empty_target: drop leaves such rows out)");
    if (columns_.group && codes_[columns_.all[*columns_.group].place] == Table::kNoCode)
      fail(row, *columns_.group, "a value of data.split_by");
    return empty.has_value();
  }

  [[noreturn]] void fail(const CsvRow& row, size_t c, const std::string& expected) const {
    reader_.fail(row.line, fmt::format("column {} '{}': expected {}, found '{:.40}'", c + 1,
                                       one_line(columns_.all[c].name), expected, one_line(row.fields[c])));
  }

  CsvReader reader_;
  const TableColumns& columns_;
  const TableRequest& request_;
  std::vector<float> numbers_;  // of the row
  std::vector<int32_t> codes_;
  ParsedPart found_;
};

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

/// Puts the parts one after another, and numbers the texts of all in their order.
class TableMaker {
 public:
  TableMaker(std::vector<ParsedPart> parts, int64_t threads) : parts_(std::move(parts)), threads_(threads) {}

  void fill(Table& table) {
    std::vector<int64_t> first;
    for (const ParsedPart& part : parts_) {
      first.push_back(table.rows);
      table.rows += part.rows;
      table.without_target += part.without_target;
    }
    for (ParsedPart& part : parts_) std::ranges::move(part.ids, std::back_inserter(table.ids));
    number_words(table);
    const size_t row_numbers = table.columns.row_numbers(), row_codes = table.columns.row_codes();
    table.numbers.resize(static_cast<size_t>(table.rows) * row_numbers);
    table.codes.resize(static_cast<size_t>(table.rows) * row_codes);
    in_parallel(parts_.size(), threads_, [&](size_t p) {
      const auto row = static_cast<size_t>(first[p]);
      std::ranges::copy(parts_[p].numbers, table.numbers.data() + row * row_numbers);
      int32_t* const codes = table.codes.data() + row * row_codes;
      for (size_t i = 0; i < parts_[p].codes.size(); ++i) {
        const int32_t code = parts_[p].codes[i];
        codes[i] = code == Table::kNoCode ? code : places_[p][i % row_codes][static_cast<size_t>(code)];
      }
      parts_[p].numbers = {};
      parts_[p].codes = {};
    });
  }

 private:
  /// Weights keep the texts of categories as JSON.
  [[noreturn]] static void refuse_bytes(const Table& table, size_t place, std::string_view word) {
    const auto column = std::ranges::find_if(table.columns.all, [&](const TableColumns::Column& each) {
      return each.use == TableColumns::Use::code && each.place == place;
    });
    throw Error(ExitCode::data,
                fmt::format("{}: column '{}': '{:.40}' is not UTF-8; convert the file: iconv "
                            "-f latin1 -t utf-8",
                            one_line(table.files.front()), one_line(column->name), one_line(word)));
  }

  void number_words(Table& table) {
    const size_t row_codes = table.columns.row_codes();
    table.words.resize(row_codes);
    places_.assign(parts_.size(), std::vector<std::vector<int32_t>>(row_codes));
    in_parallel(row_codes, threads_, [&](size_t c) {
      std::map<std::string_view, int32_t> all;
      for (const ParsedPart& part : parts_) {
        for (const auto& [word, number] : part.words[c].numbers()) all.emplace(word, 0);
      }
      int32_t place = 0;
      for (auto& [word, number] : all) {
        if (!is_utf8(word)) refuse_bytes(table, c, word);
        number = place++;
        table.words[c].emplace_back(word);
      }
      for (size_t p = 0; p < parts_.size(); ++p) {
        places_[p][c].resize(parts_[p].words[c].numbers().size());
        for (const auto& [word, number] : parts_[p].words[c].numbers())
          places_[p][c][static_cast<size_t>(number)] = all.at(word);
      }
    });
  }

  std::vector<ParsedPart> parts_;
  std::vector<std::vector<std::vector<int32_t>>> places_;  ///< of each part, column of codes and number
  int64_t threads_;
};

}  // namespace

int64_t Table::bytes() const {
  size_t bytes = numbers.size() * sizeof(float) + codes.size() * sizeof(int32_t);
  for (const std::vector<std::string>& column : words) {
    for (const std::string& word : column) bytes += sizeof word + word.size();
  }
  for (const std::string& id : ids) bytes += sizeof id + id.size();
  return static_cast<int64_t>(bytes);
}

std::string Table::place_of(int64_t row) const {
  size_t file = 0;
  while (file + 1 < files.size() && row >= file_rows[file]) row -= file_rows[file++];
  const TableText text(files[file]);
  CsvReader reader(text.text(), files[file], columns.separator);
  CsvRow record;
  reader.next(record);
  const auto is_empty = [&](size_t column) { return is_missing_value(record.fields[column]); };
  const auto is_left_out = [&] {
    if (record.fields.size() != columns.all.size()) return true;  // blank
    return std::ranges::any_of(columns.targets, is_empty) || (columns.label && is_empty(*columns.label));
  };
  while (reader.next(record)) {
    if (!is_left_out() && row-- == 0) break;
  }
  return fmt::format("{}:{}", one_line(files[file]), record.line);
}

std::shared_ptr<const Table> parse_table(const std::vector<NamedText>& texts, const TableRequest& request,
                                         int64_t threads) {
  auto table = std::make_shared<Table>();
  std::vector<ParsedPart> all;
  for (const auto& [text, file] : texts) {
    if (table->files.empty()) {
      table->columns = find_table_columns(text, file, request);
    } else {
      require_same_header(table->columns, table->files.front(), text, file);
    }
    const std::vector<TablePart> parts = divide_table(text, threads);
    std::vector<ParsedPart> parsed(parts.size());
    const std::string& name = table->files.emplace_back(file);
    in_parallel(parts.size(), threads,
                [&](size_t i) { parsed[i] = PartParser(parts[i], name, table->columns, request).parse(); });
    const auto rows = [](int64_t sum, const ParsedPart& part) { return sum + part.rows; };
    table->file_rows.push_back(std::accumulate(parsed.begin(), parsed.end(), int64_t{0}, rows));
    std::ranges::move(parsed, std::back_inserter(all));
  }
  TableMaker(std::move(all), threads).fill(*table);
  if (table->rows == 0)
    throw Error(ExitCode::data, fmt::format("{}: expected rows after the header, found none{}",
                                            one_line(table->files.front()),
                                            table->without_target > 0 ? " with a target" : ""));
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
