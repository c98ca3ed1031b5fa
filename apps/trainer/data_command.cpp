// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "apps/trainer/commands.h"
#include "apps/trainer/decode_rate.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/table_report.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/data/images/class_counts.h"
#include "core/data/images/statistics.h"
#include "core/data/tokens/formats.h"
#include "core/host/limits.h"
#include "core/recipe/job.h"

namespace trainer {
namespace {

/// The samples of a split as they are stored.
std::unique_ptr<DataSource> open_split(const RunSpec& spec, Split split) {
  return open_stored(spec.recipe().data, source_request(spec, split));
}

std::string class_name(const SplitStatistics& found, size_t label) {
  return label < found.class_names.size() ? one_line(found.class_names[label]) : std::to_string(label);
}

/// Pixels of masks that have no class.
constexpr std::string_view kIgnored = "(ignored)";

/// What a class has a number of.
const char* unit_of_counts(const SplitStatistics& found) {
  return found.ignored_pixels ? "pixels" : "samples";
}

LabelCounts counted(const SplitStatistics& found) {
  LabelCounts counts;
  for (size_t i = 0; i < found.per_class.size(); ++i) counts[static_cast<int32_t>(i)] = found.per_class[i];
  return counts;
}

/// Four digits, as a recipe may give them.
std::string numbers(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (double value : values) texts.push_back(fmt::format("{:.4f}", value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string split_text(const std::string& name, const SplitStatistics& found, const SkippedFiles& skipped) {
  const size_t classes = found.per_class.size();
  std::string text =
      fmt::format("{}: {} samples, {} class{}\n", name, found.samples, classes, classes == 1 ? "" : "es");
  for (const auto& [side, sizes] : {std::pair{"height", found.height}, std::pair{"width", found.width}}) {
    text += fmt::format("  {:<10} {} to {}, median {}\n", side, sizes.least, sizes.most, sizes.median);
  }
  text += fmt::format("  normalize  {{mean: {}, std: {}}}\n", numbers(found.mean), numbers(found.deviation));
  text += fmt::format("  {} unreadable\n", found.unreadable.size());
  for (const UnreadableSample& sample : found.unreadable)
    text += fmt::format("    {}: {}\n", one_line(sample.name), sample.reason);
  if (skipped.total() > 0) text += fmt::format("  {}\n", skipped.text());
  size_t width = 5;
  for (size_t i = 0; i < found.per_class.size(); ++i) width = std::max(width, class_name(found, i).size());
  if (found.ignored_pixels) width = std::max(width, kIgnored.size());
  text += fmt::format("  {:<{}} {:>10}\n", "class", width, unit_of_counts(found));
  for (size_t i = 0; i < found.per_class.size(); ++i)
    text += fmt::format("  {:<{}} {:>10}\n", class_name(found, i), width, found.per_class[i]);
  if (found.ignored_pixels) text += fmt::format("  {:<{}} {:>10}\n", kIgnored, width, *found.ignored_pixels);
  return text;
}

Json split_json(const SplitStatistics& found, const SkippedFiles& skipped) {
  const auto sizes = [](const Sizes& all) {
    return Json{{"min", all.least}, {"median", all.median}, {"max", all.most}};
  };
  Json report{{"samples", found.samples}, {"classes", Json::array()}};
  for (size_t i = 0; i < found.per_class.size(); ++i)
    report["classes"].push_back(
        {{"name", class_name(found, i)}, {unit_of_counts(found), found.per_class[i]}});
  if (found.ignored_pixels) report["ignored_pixels"] = *found.ignored_pixels;
  report["height"] = sizes(found.height);
  report["width"] = sizes(found.width);
  report["mean"] = found.mean;
  report["std"] = found.deviation;
  report["unreadable"] = Json::array();
  for (const UnreadableSample& sample : found.unreadable)
    report["unreadable"].push_back({{"name", sample.name}, {"reason", sample.reason}});
  report["skipped"] = Json::object();
  for (const auto& [type, count] : skipped.by_type()) report["skipped"][type] = count;
  return report;
}

/// Properties of all tokens of a split, each read once.
struct TokenStatistics {
  int64_t tokens = 0, distinct = 0;
  int32_t highest = 0;
};

TokenStatistics measure_tokens(const RunSpec& spec, Split split) {
  const Recipe& recipe = spec.recipe();
  constexpr int64_t kAtOnce = 1 << 20;
  const SplitTokens all = open_tokens(recipe.data, split, thread_limit(1).value);
  if (!all.warning.empty()) print_warning(all.warning);
  TokenStatistics found{.tokens = all.end - all.begin};
  const int64_t vocabulary = class_count(spec);
  std::vector<bool> is_there;
  std::vector<int32_t> tokens;
  for (int64_t at = all.begin; at < all.end; at += kAtOnce) {
    tokens.resize(static_cast<size_t>(std::min(kAtOnce, all.end - at)));
    all.stream.read(at, vocabulary, tokens);
    for (const int32_t token : tokens) {
      const auto place = static_cast<size_t>(token);
      if (place >= is_there.size()) is_there.resize(place + 1);
      if (!is_there[place]) ++found.distinct;
      is_there[place] = true;
      found.highest = std::max(found.highest, token);
    }
  }
  return found;
}

/// Prints the report of samples that are tokens, or adds it to `report`.
void tell_tokens(const RunSpec& spec, Split split, const std::string& name, bool as_json, Json& report) {
  const Recipe& recipe = spec.recipe();
  const TokenStatistics found = measure_tokens(spec, split);
  const int64_t windows = peek_source(recipe.data, source_request(spec, split))->size;
  if (as_json) {
    report[name] = {{"tokens", found.tokens},
                    {"windows", windows},
                    {"window", recipe.model.input[0]},
                    {"distinct", found.distinct},
                    {"highest", found.highest}};
    return;
  }
  print_text("{}: {} tokens, {} windows of {}\n  {} different tokens, the highest {}\n", name, found.tokens,
             windows, recipe.model.input[0], found.distinct, found.highest);
}

}  // namespace

int data_stats_command(const Arguments& arguments) {
  if (arguments.time) {
    print_decode_rate(arguments);
    return 0;
  }
  const std::shared_ptr<const Recipe> recipe = Recipe::load(arguments.config, arguments.overrides);
  require_data(*recipe);
  Json report;
  SplitStatistics trained, validated;
  for (const Split split : {Split::train, Split::val}) {
    const bool is_left_out = split == Split::val && !has_split(recipe->data, split);
    if (is_left_out) continue;
    const std::string name = split == Split::train ? "train" : "val";
    if (recipe->model.kind() == InputKind::tokens) {
      tell_tokens(recipe, split, name, arguments.json, report);
      continue;
    }
    const std::unique_ptr<DataSource> source = open_split(recipe, split);
    if (const auto* table = dynamic_cast<const TableSource*>(source.get())) {
      report[name] = column_json(*table);
      if (!arguments.json) print_to_output(column_text(name, *table));
      continue;
    }
    const SplitStatistics found = measure(as_images(*source), recipe->data.worker_count(1),
                                          pixel_window(recipe->data.images.transform_list(split)));
    (split == Split::train ? trained : validated) = found;
    const auto info = peek_source(recipe->data, source_request(recipe, split));
    const SkippedFiles skipped = info ? info->skipped : SkippedFiles();
    if (arguments.json) {
      report[name] = split_json(found, skipped);
    } else {
      print_to_output(split_text(name, found, skipped));
      const std::string without = unvalidated_classes(counted(trained), counted(found), trained.class_names);
      if (split == Split::val && !without.empty()) print_text("  {}\n", without);
    }
  }
  if (recipe->model.kind() == InputKind::pixels)
    report["classes_without_validation"] =
        classes_without_validation(counted(trained), counted(validated), trained.class_names);
  // A path need not be UTF-8, JSON must.
  if (arguments.json) print_text("{}\n", report.dump(2, Json::NotUtf8::replace));
  return 0;
}

}  // namespace trainer
