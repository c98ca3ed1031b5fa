// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/config/value.h"
#include "core/graph/ops/linear.h"
#include "core/recipe/assemble.h"
#include "core/step/forward.h"

namespace trainer {
namespace {

/// The place to change a network's number of outputs, and how.
struct Remedy {
  Origin origin;
  std::string setting;       ///< "out_features": the key and what goes before its value
  std::string also_replace;  ///< " and list "head.*" in model.replace", if weights are loaded
};

/// A layer of a file that several recipes share is changed from the recipe.
Remedy remedy_for(const Recipe& recipe) {
  const Network& model = recipe.model;
  const std::optional<size_t> head = model.head();
  if (!head) return {recipe.origin_of("model"), "the last layer's outputs", ""};
  const Layer& layer = *model.layers[*head];
  const std::string& file = layer.origin.where.file;
  const bool is_shared = file != recipe.file() && file != kCommandLine;
  if (model.num_classes || (is_shared && !layer.written.contains("weight_of")))
    return {layer.origin, "model.num_classes", ""};
  return {layer.origin, layer.width_key(),
          model.initial_weights ? fmt::format(" and list \"{}\" in model.replace", model.parameters_of(*head))
                                : ""};
}

std::string key_of(Split split) {
  return split == Split::train ? "data.train" : "data.val";
}

/// The key with its value and the place of that.
std::string place_of(const Recipe& recipe, Split split) {
  const Split named = recipe.data.divides_train() ? Split::train : split;
  const Origin origin = recipe.origin_of(key_of(named));
  return fmt::format("{} ({}, {})", key_of(named), recipe.data.path(named), to_string(origin.where));
}

}  // namespace

std::vector<double> balanced_weights(std::span<const int32_t> labels, int64_t classes) {
  std::vector<int64_t> counts(static_cast<size_t>(classes));
  for (const int32_t label : labels)
    if (label >= 0 && label < classes) ++counts[static_cast<size_t>(label)];
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  const auto present = static_cast<double>(std::ranges::count_if(counts, [](int64_t n) { return n > 0; }));
  std::vector<double> weights;
  for (const int64_t count : counts)
    weights.push_back(count == 0 ? 1 : all / (present * static_cast<double>(count)));
  return weights;
}

void require_labelling(const RunSpec& run, Split split, bool has_label_sets) {
  const Recipe& recipe = run.recipe();
  const bool wants_sets = task_of(run).has_label_sets();
  if (has_label_sets == wants_sets) return;
  fail_at(
      recipe.origin_of("loss.name"),
      wants_sets
          ? fmt::format("binary_cross_entropy needs a CSV file with the header file,CLASS,... and 0 or 1 for "
                        "each class; data.labels of {} gives one label for each image: use cross_entropy",
                        place_of(recipe, split))
          : fmt::format("{} takes one label for each image, and the file of data.labels in {} gives several; "
                        "use binary_cross_entropy",
                        recipe.loss->chosen_as, place_of(recipe, split)));
}

void require_same_class_count(const RunSpec& run, Split split, const SourceInfo& info) {
  const Recipe& recipe = run.recipe();
  const int64_t outputs = class_count(run);
  if (outputs == 0) return;
  require_labelling(run, split, info.has_label_sets);
  if (info.least_classes && outputs < *info.least_classes) {
    const Remedy remedy = remedy_for(recipe);
    fail_at(remedy.origin,
            fmt::format("the network has {} outputs, data.tokenizer ({}) has {} tokens; set {} to {} or more",
                        outputs, to_string(recipe.origin_of("data.tokenizer").where), *info.least_classes,
                        remedy.setting, *info.least_classes));
  }
  if (!info.classes || *info.classes == outputs) return;
  const Remedy remedy = remedy_for(recipe);
  fail_at(remedy.origin,
          fmt::format("the network has {} output{}, {} has {} class{}; set {} to {}{}, or correct the data",
                      outputs, outputs == 1 ? "" : "s", place_of(recipe, split), *info.classes,
                      *info.classes == 1 ? "" : "es", remedy.setting, *info.classes, remedy.also_replace));
}

void require_columns(const RunSpec& run, const SourceInfo& info) {
  const Recipe& recipe = run.recipe();
  if (!is_of_table(recipe.model.kind()) || !recipe.data.chosen_format().reads_files()) return;
  if (recipe.model.kind() == InputKind::text)
    return check_embeddings(forward_program(run), {input_name::kTokens}, info.token_ids,
                            fmt::format("data.tokenizer has {} tokens", info.token_ids));
  const auto require = [&](const char* key, int64_t wanted, int64_t found, const char* what) {
    if (wanted == found) return;
    fail_at(recipe.origin_of(key),
            fmt::format("expected {}, {} ({}), got {}", found, what, recipe.data.path(Split::train), wanted));
  };
  if (recipe.model.kind() == InputKind::series)
    require("model.input[0]", recipe.model.input[0], info.shape[0], "data.table.window.length of data.train");
  require(recipe.model.kind() == InputKind::series ? "model.input[1]" : "model.input",
          recipe.model.input.back(), info.shape.back(), "the columns of numbers in data.train");
  require("model.categories", recipe.model.categories, info.categories,
          "the columns of categories in data.train");
  if (info.categories == 0) return;
  check_embeddings(forward_program(run), {input_name::kCategories}, info.category_rows,
                   fmt::format("the categories of data.train have {}, one of each column for what is missing",
                               info.category_rows));
}

std::optional<std::string> unused_outputs(const RunSpec& run, const DataSource& train) {
  const int64_t outputs = class_count(run);
  if (train.classes() >= outputs) return std::nullopt;
  const Remedy remedy = remedy_for(run.recipe());
  return fmt::format(
      "{}: {}: the network has {} outputs, but the highest label of data.train is {}; if there are no "
      "more classes, set {} to {}",
      to_string(remedy.origin.where), written_path(remedy.origin), outputs, train.classes() - 1,
      remedy.setting, train.classes());
}

}  // namespace trainer
