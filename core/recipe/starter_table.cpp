// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/starter_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/config/value.h"
#include "core/data/tables/findings.h"
#include "core/data/tables/number.h"
#include "core/data/tables/preparation.h"
#include "core/data/tables/time.h"
#include "core/recipe/starter_text.h"

namespace trainer {
namespace {

constexpr int64_t kMostNumberedClasses = 10;

TableRequest request_for(const std::string& target, std::vector<std::string> ignored = {}) {
  TableRequest request{.targets = TargetUse::classes, .origin_of = [](const std::string&) {
                         return Origin{{.file = "--target"}, ""};
                       }};
  request.keys.target = {target};
  request.keys.ignore = std::move(ignored);
  request.keys.empty_target = "drop";
  return request;
}

/// Whether texts are few whole numbers, or no numbers.
bool are_classes(const std::vector<std::string>& texts) {
  bool are_numbers = true, are_whole = true;
  for (const std::string& text : texts) {
    double number = 0;
    are_numbers = are_numbers && parse_number(text, number);
    are_whole = are_whole && number == std::floor(number);
  }
  return !are_numbers || (are_whole && static_cast<int64_t>(texts.size()) <= kMostNumberedClasses);
}

/// A column whose texts are all dates; empty if there is none.
std::string column_of_dates(const Table& table) {
  for (const size_t column : table.columns.categories) {
    const std::vector<std::string>& texts = table.words[table.columns.all[column].place];
    const auto is_date = [](const std::string& text) { return parse_date(text).has_value(); };
    if (!texts.empty() && std::ranges::all_of(texts, is_date)) return table.columns.all[column].name;
  }
  return "";
}

std::string quoted_list(const std::vector<std::string>& texts) {
  Value list;
  list.kind = Value::Kind::list;
  for (const std::string& text : texts) {
    Value item;
    item.kind = Value::Kind::scalar;
    item.text = text;
    list.items.push_back(item);
  }
  return to_flow(list);
}

std::string network_text(const TableStarter& starter) {
  std::string text = fmt::format(
      "  input_kind: features\n  input: [{}]                # columns of numbers\n", starter.numbers);
  if (starter.categories > 0)
    text += fmt::format("  categories: {}             # columns of categories, which are input:1\n",
                        starter.categories);
  text += "  layers:\n";
  if (starter.categories > 0) {
    const int64_t features = std::clamp<int64_t>(std::llround(std::sqrt(starter.category_rows)), 2, 16);
    text += fmt::format(
        "    # A vector for each category; the rows are those of all columns, and one of each for what is\n"
        "    # missing or unknown.\n"
        "    - embedding: {{inputs: [\"{}\"], vocab_size: {}, features: {}}}\n"
        "    - flatten: {{name: embedded}}\n"
        "{}",
        starter.numbers > 0 ? "input:1" : "input", starter.category_rows, features,
        starter.numbers > 0 ? "    - concat: {inputs: [input, embedded]}\n" : "");
  }
  return text + fmt::format(
                    "    - linear: 128\n    - relu\n    - linear: 64\n    - relu\n"
                    "    - linear: {{name: head, out_features: {}}}\n",
                    std::max<int64_t>(starter.classes, 1));
}

}  // namespace

TableStarter measure_table(const std::filesystem::path& file, const std::string& target, int64_t threads) {
  TableStarter found{.train = file, .target = target};
  const auto first = read_table({file.string()}, request_for(target), threads);
  found.ignored = first->columns.names(columns_of_row_names(*first));
  found.time = column_of_dates(*first);
  const TableRequest request = request_for(target, found.ignored);
  const auto table = found.ignored.empty() ? first : read_table({file.string()}, request, threads);
  std::vector<int64_t> rows(static_cast<size_t>(table->rows));
  std::iota(rows.begin(), rows.end(), 0);
  const TablePreparation preparation = prepare_table(*table, rows, request, threads);
  found.samples = table->rows;
  found.without_target = table->without_target;
  found.numbers = static_cast<int64_t>(preparation.numbers.size());
  found.categories = static_cast<int64_t>(preparation.categories.size());
  found.category_rows = preparation.category_rows();
  if (are_classes(preparation.classes)) found.classes = static_cast<int64_t>(preparation.classes.size());
  return found;
}

std::string table_starter_recipe(const TableStarter& starter) {
  const StarterLength length(starter.samples, false, 256);
  const bool has_classes = starter.classes > 0;
  std::string columns = fmt::format("target: {}", quoted_list({starter.target}));
  if (!starter.ignored.empty()) columns += fmt::format(", ignore: {}", quoted_list(starter.ignored));
  if (starter.without_target > 0) columns += ", empty_target: drop";
  return fmt::format(
      "# Written by `trainer init` for {samples} rows with {target}. All keys: `trainer schema --markdown`;\n"
      "# layers: `trainer layers`.\n"
      "version: 1\n"
      "run: {{seed: 1}}\n"
      "model:\n"
      "{network}"
      "data:\n"
      "  format: table\n"
      "  {train}"
      "  val_fraction: {fraction}                   # set aside for validation\n"
      "  table: {{{columns}}}\n"
      "training:\n"
      "  max_duration: {epochs}ep                  # epochs; 500ba: batches\n"
      "  global_batch_size: {batch}\n"
      "loss: {{name: {loss}}}\n"
      "validation: {{metrics: [{metrics}]}}\n"
      "optimizer: {{name: adamw, lr: 0.002, weight_decay: 0.01}}\n"
      "lr_scheduler: {{name: cosine, warmup: 1ep}}\n"
      "logging: {{interval: {interval}ba}}\n",
      fmt::arg("samples", starter.samples),
      fmt::arg("target", has_classes ? fmt::format("{} classes", starter.classes) : "a number to predict"),
      fmt::arg("network", network_text(starter)),
      fmt::arg("train", yaml_line("train", starter.train.string())),
      fmt::arg("fraction", kStarterValFraction), fmt::arg("columns", columns),
      fmt::arg("epochs", length.epochs), fmt::arg("batch", length.batch),
      fmt::arg("loss", has_classes ? "cross_entropy" : "mse"),
      fmt::arg("metrics", has_classes ? "top1, macro_f1" : "mae, rmse, r2"),
      fmt::arg("interval", length.interval));
}

}  // namespace trainer
