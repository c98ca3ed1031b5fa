// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace trainer {
namespace {

std::vector<int64_t> all_rows(const Table& table) {
  std::vector<int64_t> rows(static_cast<size_t>(table.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<int32_t> codes_of(const Table& table, std::optional<size_t> column) {
  std::vector<int32_t> codes;
  if (!column) return codes;
  for (int64_t row = 0; row < table.rows; ++row)
    codes.push_back(table.codes_of(row)[table.columns.all[*column].place]);
  return codes;
}

/// The classes of one column, and those of columns of 0 and 1, take their shares.
std::vector<int64_t> chosen_rows(const Table& table, const TableRequest& wanted, const SplitChoice& choice) {
  SplitBy by{.labels = codes_of(table, table.columns.label), .groups = codes_of(table, table.columns.group)};
  for (int64_t row = 0; wanted.targets == TargetUse::label_sets && row < table.rows; ++row) {
    std::vector<int32_t> set;
    const std::span<const float> targets = table.numbers_of(row).subspan(table.columns.numbers.size());
    for (size_t c = 0; c < targets.size(); ++c)
      if (targets[c] != 0) set.push_back(static_cast<int32_t>(c));
    by.label_sets.add(set);
  }
  return chosen_samples(table.rows, std::move(by), choice);
}

/// Validation is the end of each series. Without a fraction all rows are for training.
std::vector<SeriesPart> chosen_parts(const Table& table, const SplitChoice& choice) {
  return choice.split == Split::train ? before_the_end(table, choice.fraction)
                                      : at_the_end(table, choice.fraction);
}

/// The windows of these parts, and their rows. Throws Error (exit 65) if there are none.
TableSamples window_samples(const Table& table, const WindowKeys& keys, const TablePreparation& preparation,
                            const std::vector<SeriesPart>& parts, bool with_targets) {
  const std::string file = one_line(table.files.front());
  const std::string column = one_line(table.columns.all[*table.columns.time].name);
  if (!preparation.step)
    throw Error(ExitCode::data, fmt::format("{}: the weights were trained on rows, not on windows", file));
  const TimeStep& step = *preparation.step;
  if (step.form() != table.columns.time_form)
    throw Error(ExitCode::data, fmt::format("{}: column '{}': expected {} as in training, found {}", file,
                                            column, step.form() == TimeForm::date ? "dates" : "numbers",
                                            step.form() == TimeForm::date ? "numbers" : "dates"));
  TableSamples samples{.rows = rows_in(parts),
                       .windows = find_windows(table, keys, step, parts, with_targets)};
  if (!samples.windows->first.empty()) return samples;
  int64_t longest = 0;
  for (const auto& [begin, end] : parts) longest = std::max(longest, end - begin);
  throw Error(
      ExitCode::data,
      fmt::format(
          "{}: expected a window of {} rows{}, each {} after the other by column '{}', found none in {} "
          "series, of at most {} rows{}",
          file, samples.windows->length,
          with_targets ? fmt::format(" and a target {} rows later", keys.horizon) : "", step.text(), column,
          parts.size(), longest, samples.windows->left_out_text()));
}

}  // namespace

std::vector<int64_t> split_rows_of(const Table& table, const TableRequest& wanted,
                                   const SplitChoice& choice) {
  if (table.columns.time) return rows_in(chosen_parts(table, choice));
  return choice.fraction > 0 || choice.folds > 0 ? chosen_rows(table, wanted, choice) : all_rows(table);
}

TableSamples split_samples(const Table& table, const TableRequest& wanted,
                           const TablePreparation& preparation, const SplitChoice& choice) {
  if (!table.columns.time) return {.rows = split_rows_of(table, wanted, choice)};
  return window_samples(table, wanted.keys.window, preparation, chosen_parts(table, choice), true);
}

TableSamples named_samples(const Table& table, const TableRequest& wanted,
                           const TablePreparation& preparation) {
  if (!table.columns.time) return {.rows = all_rows(table)};
  return window_samples(table, wanted.keys.window, preparation, chosen_parts(table, {}), false);
}

}  // namespace trainer
