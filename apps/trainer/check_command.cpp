// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "apps/trainer/check_list.h"
#include "apps/trainer/checked_images.h"
#include "apps/trainer/checked_table.h"
#include "apps/trainer/commands.h"
#include "apps/trainer/inputs.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/suspects.h"
#include "apps/trainer/trained_recipe.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/data/exclude.h"
#include "core/data/formats.h"
#include "core/recipe/job.h"

namespace trainer {
namespace {

/// Rows of a list that a reader gets; JSON has all.
constexpr size_t kShownRows = 20;
constexpr int64_t kUsualDistance = 8;

std::string text_of(const CheckList& list) {
  std::string text = fmt::format("{}: {}\n", list.title, list.rows.size());
  for (size_t i = 0; i < std::min(kShownRows, list.rows.size()); ++i)
    text += fmt::format("  {}\n", list.rows[i].text);
  if (list.rows.size() > kShownRows)
    text += fmt::format("  ... and {} more, which --json lists\n", list.rows.size() - kShownRows);
  return text;
}

Json json_of(const CheckList& list) {
  Json rows = Json::array();
  for (const CheckList::Row& row : list.rows) rows.push_back(row.json);
  return rows;
}

/// What to leave out, once each, under the reason; and before it what the recipe leaves out already.
std::string exclude_text(const Recipe& recipe, const std::vector<CheckList>& lists) {
  std::string text;
  if (recipe.data.exclude) text = read_text(recipe.data.exclude->resolved).value_or("");
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  std::set<CheckedSample> named;
  for (const CheckList& list : lists) {
    std::string lines;
    for (const CheckList::Row& row : list.rows) {
      for (const CheckedSample& sample : row.left_out) {
        if (named.insert(sample).second) lines += exclude_line(sample.stored, sample.name);
      }
    }
    if (!lines.empty()) text += fmt::format("# {}\n{}", list.title, lines);
  }
  return text;
}

/// The recipe of --config, otherwise that of the first run.
std::shared_ptr<const Recipe> checked_recipe(const Arguments& arguments) {
  Arguments named = arguments;
  if (named.config.empty() && !named.check.runs.empty()) named.run = named.check.runs.front();
  if (named.config.empty() && named.run.empty())
    throw Error(ExitCode::usage, "data check needs a recipe (--config FILE), or runs (--run DIRECTORY)");
  return named_recipe(named);
}

void check_options(const Recipe& recipe, const Arguments& arguments) {
  const InputKind kind = recipe.model.kind();
  if (kind != InputKind::pixels && kind != InputKind::features)
    fail_at(recipe.origin_of("data.format"),
            fmt::format("data check looks for mistakes in images and rows of tables, and the samples are {}",
                        recipe.data.rows(kind).name()));
  if (kind == InputKind::features && !recipe.data.chosen_format().reads_files())
    fail_at(recipe.origin_of("data.format"), "data check needs a table, and the samples are made up");
  if (kind == InputKind::features && arguments.check.distance)
    throw Error(ExitCode::usage, "--distance is for images; of tables, rows are equal or not");
  if (kind == InputKind::pixels && !arguments.check.id.empty())
    throw Error(ExitCode::usage, "--id names a column of a table, and the samples are images");
  if (arguments.check.suspects > 0 && arguments.check.runs.empty())
    throw Error(ExitCode::usage, "--suspects needs networks: name trained runs with --run DIRECTORY");
  if (arguments.check.suspects == 0 && !arguments.check.runs.empty() && !arguments.config.empty())
    throw Error(ExitCode::usage, "--run names networks for --suspects N; add it, or leave out --run");
}

CheckedData check_images(const std::shared_ptr<const Recipe>& recipe, int64_t distance) {
  const CheckedImages images(recipe);
  return {.train = images.size(Split::train),
          .val = images.size(Split::val),
          .columns = {},
          .lists = images.lists(static_cast<int>(distance))};
}

std::string columns_text(const std::vector<std::string>& columns) {
  std::string text;
  for (const std::string& name : columns)
    text += fmt::format("{} {}", text.empty() ? "columns compared:" : ",", one_line(name));
  return text.empty() ? "" : text + "\n";
}

}  // namespace

int data_check_command(const Arguments& arguments) {
  StopSignals signals(StopSignals::kPass);
  const std::shared_ptr<const Recipe> recipe = checked_recipe(arguments);
  check_options(*recipe, arguments);
  require_data(*recipe);
  CheckedData found = recipe->model.kind() == InputKind::features
                          ? check_table(recipe, arguments.check.id)
                          : check_images(recipe, arguments.check.distance.value_or(kUsualDistance));
  signals.throw_if_asked();
  std::vector<CheckList>& lists = found.lists;
  if (arguments.check.suspects > 0) lists.push_back(suspects_of(arguments.check, signals));
  if (!arguments.out.empty()) {
    const OutputFile output(arguments.out, input_files(*recipe));
    const std::string text = exclude_text(*recipe, lists);
    output.write([&](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
  }
  if (arguments.json) {
    Json report{{"train", found.train}, {"val", found.val}};
    if (!found.columns.empty()) report["columns"] = found.columns;
    for (const CheckList& list : lists) report[list.key] = json_of(list);
    print_text("{}\n", report.dump(2, Json::NotUtf8::replace));
    return 0;
  }
  print_text("{} training and {} validation samples\n", found.train, found.val);
  print_to_output(columns_text(found.columns));
  for (const CheckList& list : lists) print_to_output(text_of(list));
  return 0;
}

}  // namespace trainer
