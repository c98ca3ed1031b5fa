// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/checked_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/printable.h"
#include "core/data/formats.h"
#include "core/data/tables/column_values.h"
#include "core/data/tables/findings.h"
#include "core/recipe/job.h"

namespace trainer {
namespace {

const TableSource& as_rows(const DataSource& source) {
  return dynamic_cast<const TableSource&>(source);
}

/// The rows of both splits, those of training first.
class CheckedRows {
 public:
  CheckedRows(const RunSpec& spec, const std::string& id) : spec_(spec), id_(id) {
    const DataSection& data = spec.recipe().data;
    for (const Split side : {Split::train, Split::val}) {
      if (!has_split(data, side)) continue;
      parts_.push_back(open_stored(data, source_request(spec, side)));
      exclude_name(*parts_.back(), 0, id);  // refuses an unknown column, whatever is found
    }
  }

  int64_t size(Split side) const {
    const size_t part = side == Split::train ? 0 : 1;
    return part < parts_.size() ? parts_[part]->size() : 0;
  }
  const TableSource& training() const { return as_rows(*parts_.front()); }
  std::vector<ColumnValues> columns() const {
    std::vector<const TableSource*> parts;
    for (const auto& part : parts_) parts.push_back(&as_rows(*part));
    return column_values(parts);
  }
  std::vector<ColumnValues> training_columns() const {
    const TableSource* const part = &training();
    return column_values({&part, 1});
  }
  std::vector<CheckedSample> samples(const std::vector<size_t>& rows) const {
    std::vector<CheckedSample> found;
    for (const size_t row : rows) {
      const auto place = static_cast<int64_t>(row);
      const bool is_training = place < size(Split::train);
      const Split side = is_training ? Split::train : Split::val;
      const int64_t index = is_training ? place : place - size(Split::train);
      found.push_back({.side = side,
                       .stored = stored_in(spec_.recipe().data, side),
                       .name = exclude_name(*parts_[is_training ? 0 : 1], index, id_)});
    }
    return found;
  }

 private:
  const RunSpec& spec_;
  const std::string& id_;
  std::vector<std::unique_ptr<DataSource>> parts_;
};

std::vector<const ColumnValues*> of_role(const std::vector<ColumnValues>& columns, ColumnValues::Role role) {
  std::vector<const ColumnValues*> found;
  for (const ColumnValues& column : columns)
    if (column.role == role) found.push_back(&column);
  return found;
}

CheckList copies_list(const CheckedRows& rows, const std::vector<ColumnValues>& columns) {
  std::vector<const ColumnValues*> all;
  for (const ColumnValues& column : columns) all.push_back(&column);
  CheckList list{.key = "exact_duplicates", .title = ""};
  size_t copies = 0;
  for (const std::vector<size_t>& group : equal_rows(all)) {
    list.rows.push_back(row_of_copies(rows.samples(group)));
    copies += group.size() - 1;
  }
  list.title = fmt::format("groups of equal rows ({} {} another)", copies,
                           copies == 1 ? "row repeats" : "rows repeat");
  return list;
}

std::string value_text(const ColumnValues& column, size_t row) {
  const auto code = static_cast<size_t>(column.codes[row]);
  return column.is_number ? fmt::format("{}", column.numbers[code]) : one_line(column.words[code]);
}

std::string values_text(const std::vector<const ColumnValues*>& columns, size_t row) {
  std::vector<std::string> texts;
  for (const ColumnValues* column : columns) texts.push_back(value_text(*column, row));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Equal inputs may have different numbers as targets, so that those are no mistake that --write leaves out.
CheckList contradictions_list(const CheckedRows& rows, const std::vector<ColumnValues>& columns,
                              bool are_classes) {
  CheckList list{.key = "contradictory_labels",
                 .title = are_classes ? "groups of rows with equal inputs and different classes"
                                      : "groups of rows with equal inputs and different targets, which "
                                        "--write keeps"};
  const std::vector<const ColumnValues*> targets = of_role(columns, ColumnValues::Role::target);
  for (const std::vector<size_t>& group : equal_rows(of_role(columns, ColumnValues::Role::input))) {
    const auto has_others = [&](size_t row) {
      return std::ranges::any_of(targets, [&](const ColumnValues* target) {
        return target->codes[row] != target->codes[group.front()];
      });
    };
    if (std::ranges::none_of(group, has_others)) continue;
    std::vector<std::string> labels;
    for (const size_t row : group) labels.push_back(values_text(targets, row));
    CheckList::Row row = row_of_contradiction(rows.samples(group), labels);
    row.json["targets"] = labels;
    if (!are_classes) row.left_out.clear();
    list.rows.push_back(std::move(row));
  }
  return list;
}

CheckList column_list(const std::string& key, const std::string& title,
                      const std::vector<std::string>& names) {
  CheckList list{.key = key, .title = title};
  for (const std::string& name : names)
    list.rows.push_back({.text = one_line(name), .json = {{"column", name}}, .left_out = {}});
  return list;
}

CheckList predictive_list(const std::vector<PredictiveColumn>& found) {
  CheckList list{.key = "predictive_columns", .title = "columns that alone predict the target"};
  for (const PredictiveColumn& each : found) {
    list.rows.push_back({.text = fmt::format("{} predicts {} ({}, {:.4f})", one_line(each.column),
                                             one_line(each.target), each.how, each.strength),
                         .json = {{"column", each.column},
                                  {"target", each.target},
                                  {"how", each.how},
                                  {"strength", each.strength}},
                         .left_out = {}});
  }
  return list;
}

}  // namespace

CheckedData check_table(const std::shared_ptr<const Recipe>& recipe, const std::string& id) {
  const RunSpec spec(recipe);
  const SourceRequest request = source_request(spec, Split::train);
  const CheckedRows rows(spec, id);
  const std::vector<ColumnValues> columns = rows.columns(), of_training = rows.training_columns();
  CheckedData found{
      .train = rows.size(Split::train), .val = rows.size(Split::val), .columns = {}, .lists = {}};
  for (const ColumnValues& column : columns) found.columns.push_back(column.name);
  const Table& table = rows.training().table();
  found.lists = {copies_list(rows, columns), contradictions_list(rows, columns, !request.wants_numbers),
                 column_list("constant_columns", "columns with one value", constant_columns(of_training)),
                 column_list("row_names", "columns that identify rows; name them in data.table.ignore",
                             table.columns.names(columns_of_row_names(table))),
                 predictive_list(predictive_columns(of_training, !request.wants_numbers, request.threads))};
  return found;
}

}  // namespace trainer
