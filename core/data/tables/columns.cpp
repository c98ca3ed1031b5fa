// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/printable.h"
#include "core/data/csv.h"
#include "core/data/tables/number.h"
#include "core/data/tables/preparation.h"

namespace trainer {
namespace {

constexpr const char *kSection = "data.table", *kTarget = "data.table.target", *kIgnore = "data.table.ignore",
                     *kCategorical = "data.table.categorical", *kSplitBy = "data.split_by",
                     *kTime = "data.table.window.time", *kBy = "data.table.window.by";
/// The rows that show which columns have texts.
constexpr int64_t kFirstRows = 10000;
constexpr size_t kListedColumns = 10;

std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kListedColumns); ++i)
    shown.push_back(fmt::format("'{:.40}'", one_line(names[i])));
  const size_t more = names.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

/// Finds the columns of a header that keys name, and what each is read as.
class ColumnChooser {
 public:
  using Use = TableColumns::Use;

  ColumnChooser(const CsvRow& header, char separator, std::vector<bool> has_text, const std::string& file,
                const TableRequest& request)
      : names_(header.texts()),
        has_text_(std::move(has_text)),
        is_taken_(names_.size()),
        file_(file),
        request_(request) {
    columns_.separator = separator;
    for (const std::string& name : names_) columns_.all.push_back({.name = name});
  }

  /// For training.
  TableColumns choose() {
    for (const std::string& name : request_.keys.ignore) is_taken_[find(kIgnore, name)] = true;
    std::vector<bool> is_category = has_text_;
    for (const std::string& name : request_.keys.categorical) {
      if (name != TableKeys::kAuto) is_category[find(kCategorical, name)] = true;
    }
    const std::vector<size_t> targets = find_targets();
    const std::optional<size_t> group = find_group(targets);
    find_series(targets);
    find_text(targets);
    for (size_t column = 0; !columns_.text && column < names_.size(); ++column) {
      if (is_taken_[column]) continue;
      require_name(column);
      read(column, is_category[column] ? columns_.categories : columns_.numbers,
           is_category[column] ? Use::code : Use::number);
    }
    add_targets(targets);
    add_group(group);
    add_series();
    return std::move(columns_);
  }

  /// The columns that a network was trained with.
  TableColumns choose_as(const TablePreparation& trained) {
    for (const auto& number : trained.numbers) read(find_trained(number.name), columns_.numbers, Use::number);
    for (const auto& category : trained.categories)
      read(find_trained(category.name), columns_.categories, Use::code);
    const std::vector<size_t> targets =
        request_.targets == TargetUse::none ? std::vector<size_t>() : find_targets();
    require_unread(kTarget, request_.keys.window.time ? std::vector<size_t>() : targets);
    if (request_.targets == TargetUse::numbers && targets.size() != trained.targets.size())
      fail(kTarget, fmt::format("the network was trained with {} target{}, got {}", trained.targets.size(),
                                trained.targets.size() == 1 ? "" : "s", targets.size()));
    add_targets(targets);
    if (!request_.split_by.empty()) {
      const std::optional<size_t> group = find_group(targets);
      require_unread(kSplitBy, {*group});
      add_group(group);
    }
    find_trained_series();
    if (!trained.text.empty()) columns_.text = find_trained(trained.text);
    add_series();
    add_id();
    return std::move(columns_);
  }

 private:
  [[noreturn]] void fail(const char* key, const std::string& text) const {
    fail_at(request_.origin_of(key), text);
  }

  void require_unread(const char* key, const std::vector<size_t>& columns) const {
    for (const size_t column : columns) {
      if (columns_.all[column].use != Use::nothing)
        fail(key, fmt::format("the network was trained to read the column '{}'", one_line(names_[column])));
    }
  }

  std::string absence(const std::string& name) const {
    const auto near = nearest(name, names_);
    return fmt::format("there is no column '{}' in {}{}; it has {}", one_line(name), one_line(file_),
                       near ? fmt::format(": did you mean '{}'?", one_line(*near)) : "", listed(names_));
  }

  size_t find(const char* key, const std::string& name) const {
    if (name.empty()) fail(key, "must be the name of a column, got ''");
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) fail(key, absence(name));
    if (std::find(found + 1, names_.end(), name) != names_.end())
      fail(key, fmt::format("{} has two columns '{}'; rename one", one_line(file_), one_line(name)));
    return static_cast<size_t>(found - names_.begin());
  }

  size_t find_trained(const std::string& name) const {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end())
      throw Error(ExitCode::data, fmt::format("{}; the network was trained with that column", absence(name)));
    return static_cast<size_t>(found - names_.begin());
  }

  /// Of a column that no key names, but the network reads.
  void require_name(size_t column) const {
    const std::string& name = names_[column];
    if (name.empty())
      fail(kSection, fmt::format("column {} of {} has no name in the header; name it there", column + 1,
                                 one_line(file_)));
    if (std::ranges::count(names_, name) > 1)
      fail(kSection, fmt::format("{} has two columns '{}'; rename one", one_line(file_), one_line(name)));
  }

  std::vector<size_t> find_targets() {
    std::vector<size_t> targets;
    for (const std::string& name : request_.keys.target) {
      const size_t column = find(kTarget, name);
      if (is_taken_[column])
        fail(kTarget, fmt::format("the column '{}' is named twice, or in data.table.ignore", one_line(name)));
      is_taken_[column] = true;
      targets.push_back(column);
    }
    if (request_.targets == TargetUse::classes && targets.size() != 1)
      fail(kTarget, fmt::format("expected one column of classes, got {}", targets.size()));
    return targets;
  }

  std::optional<size_t> find_group(const std::vector<size_t>& targets) {
    if (request_.split_by.empty()) return std::nullopt;
    const size_t column = find(kSplitBy, request_.split_by);
    if (std::ranges::find(targets, column) != targets.end())
      fail(kSplitBy, "names the target; name a column that several rows share, such as a patient");
    is_taken_[column] = true;
    return column;
  }

  /// Past values of targets that are numbers are read too.
  void find_series(const std::vector<size_t>& targets) {
    const WindowKeys& window = request_.keys.window;
    if (!window.time) return;
    const auto take = [&](const char* key, const std::string& name) {
      const size_t column = find(key, name);
      if (std::ranges::find(targets, column) != targets.end())
        fail(key, fmt::format("the column '{}' is the target", one_line(name)));
      is_taken_[column] = true;
      return column;
    };
    columns_.time = take(kTime, *window.time);
    for (const std::string& name : window.by) {
      const size_t column = take(kBy, name);
      if (column == columns_.time)
        fail(kBy, fmt::format("the column '{}' is that of the times", one_line(name)));
      const bool is_category = std::ranges::count(request_.keys.categorical, name) > 0;
      is_taken_[column] = !is_category;
      columns_.series.push_back(column);
    }
    for (const size_t column : targets) {
      if (request_.targets != TargetUse::classes && !has_text_[column]) is_taken_[column] = false;
    }
  }

  void find_text(const std::vector<size_t>& targets) {
    constexpr const char* kText = "data.table.text";
    if (!request_.keys.text) return;
    columns_.text = find(kText, *request_.keys.text);
    if (std::ranges::find(targets, *columns_.text) != targets.end())
      fail(kText, fmt::format("the column '{}' is the target", one_line(*request_.keys.text)));
  }

  void find_trained_series() {
    const WindowKeys& window = request_.keys.window;
    if (!window.time) return;
    columns_.time = find_trained(*window.time);
    for (const std::string& name : window.by) columns_.series.push_back(find_trained(name));
  }

  void read(size_t column, std::vector<size_t>& list, Use use) {
    columns_.all[column].use = use;
    columns_.all[column].place = list.size();
    list.push_back(column);
  }

  void add_targets(const std::vector<size_t>& targets) {
    if (request_.targets == TargetUse::none) return;
    if (request_.targets == TargetUse::classes) {
      columns_.all[targets[0]].use = Use::code;
      columns_.all[targets[0]].place = columns_.row_codes();
      columns_.label = targets[0];
      return;
    }
    for (const size_t column : targets) {
      if (has_text_[column])
        fail(kTarget, fmt::format("the column '{}' has texts, and this loss compares numbers; use "
                                  "loss.name: cross_entropy, for which they are classes",
                                  one_line(names_[column])));
      if (columns_.all[column].use == Use::nothing)
        columns_.all[column] = {.name = names_[column], .use = Use::number, .place = columns_.row_numbers()};
      columns_.targets.push_back(column);
    }
  }

  void add_group(std::optional<size_t> group) {
    if (!group) return;
    columns_.all[*group].use = Use::code;
    columns_.all[*group].place = columns_.row_codes();
    columns_.group = group;
  }

  void add_series() {
    if (!columns_.time) return;
    columns_.all[*columns_.time].use = Use::time;
    columns_.time_form = has_text_[*columns_.time] ? TimeForm::date : TimeForm::number;
    for (const size_t column : columns_.series) {
      if (columns_.all[column].use == Use::code) continue;  // it is a category too
      columns_.all[column].use = Use::code;
      columns_.all[column].place = columns_.row_codes();
      ++columns_.series_codes;
    }
  }

  void add_id() {
    if (request_.id.empty()) return;
    const auto found = std::ranges::find(names_, request_.id);
    if (found == names_.end()) throw Error(ExitCode::usage, fmt::format("--id: {}", absence(request_.id)));
    columns_.id = static_cast<size_t>(found - names_.begin());
  }

  std::vector<std::string> names_;
  std::vector<bool> has_text_, is_taken_;
  const std::string& file_;
  const TableRequest& request_;
  TableColumns columns_;
};

/// Whether each column has a text among the first rows.
std::vector<bool> columns_of_texts(CsvReader& after_header, size_t columns) {
  std::vector<bool> has_text(columns);
  CsvRow row;
  for (int64_t i = 0; i < kFirstRows && after_header.next(row); ++i) {
    for (size_t c = 0; c < std::min(columns, row.fields.size()); ++c) {
      double number = 0;
      const std::string_view field = row.fields[c];
      if (!has_text[c] && !is_missing_value(field) && !parse_number(field, number)) has_text[c] = true;
    }
  }
  return has_text;
}

void require_header(const CsvReader& table, const CsvRow& row) {
  const auto is_number = [](std::string_view field) {
    double number = 0;
    return parse_number(field, number);
  };
  if (std::ranges::all_of(row.fields, is_number))
    table.fail(1, "expected a line with the names of the columns, found numbers; write such a line first");
}

}  // namespace

bool TableRequest::reads_as(const TableRequest& other) const {
  return keys.target == other.keys.target && keys.ignore == other.keys.ignore &&
         keys.categorical == other.keys.categorical && keys.empty_target == other.keys.empty_target &&
         keys.window == other.keys.window && keys.text == other.keys.text &&
         (keys.missing == TableKeys::kPrevious) == (other.keys.missing == TableKeys::kPrevious) &&
         split_by == other.split_by && targets == other.targets && trained == other.trained;
}

std::vector<std::string> TableColumns::names(const std::vector<size_t>& columns) const {
  std::vector<std::string> names;
  for (const size_t column : columns) names.push_back(all[column].name);
  return names;
}

TableColumns find_table_columns(std::string_view text, const std::string& file, const TableRequest& request) {
  const char separator = csv_separator(text);
  CsvReader table(text, file, separator);
  CsvRow header;
  if (!table.next(header))
    table.fail(1, "expected a line with the names of the columns, found an empty file");
  require_header(table, header);
  std::vector<bool> has_text = columns_of_texts(table, header.fields.size());
  ColumnChooser chooser(header, separator, std::move(has_text), file, request);
  return request.trained ? chooser.choose_as(*request.trained) : chooser.choose();
}

}  // namespace trainer
