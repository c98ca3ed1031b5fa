// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/graph/ops/linear.h"
#include "core/recipe/assemble.h"

namespace trainer {
namespace {

/// The layer that determines the number of a network's outputs: the last one with weights.
struct Head {
  Origin origin;
  std::string key;         ///< the key to change
  std::string parameters;  ///< a pattern of their names
};

/// The name of a node's matrix of weights, or of its kernels; empty if it has none.
std::string weights_of(const Program& program, const Node& node) {
  for (const TensorId id : node.inputs) {
    if (id == kNone || program.tensor(id).role != Role::parameter) continue;
    if (program.spec(id).shape.size() > 1) return program.tensor(id).name;
  }
  return "";
}

std::optional<Head> head_of(const RunSpec& run) {
  const Program program = forward_program(run, {.purpose = Purpose::predict});
  const std::vector<Node>& nodes = program.entries.back().nodes;
  const auto last = std::find_if(nodes.rbegin(), nodes.rend(),
                                 [&](const Node& node) { return !weights_of(program, node).empty(); });
  if (last == nodes.rend()) return std::nullopt;
  const std::string weights = weights_of(program, *last);
  const bool is_linear = dynamic_cast<const Linear*>(last->op.get()) != nullptr;
  return Head{.origin = last->origin,
              .key = is_linear ? "out_features" : "out_channels",
              .parameters = weights.substr(0, weights.rfind('.')) + ".*"};
}

std::string key_of(Split split) {
  return split == Split::train ? "data.train" : "data.val";
}

/// The key with its value and the place of that.
std::string place_of(const Recipe& recipe, Split split) {
  const Split named = recipe.data.val_fraction > 0 ? Split::train : split;
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
    const std::optional<Head> head = head_of(run);
    fail_at(head ? head->origin : recipe.origin_of("model"),
            fmt::format("the network has {} outputs, data.tokenizer ({}) has {} tokens; set {} to {} or more",
                        outputs, to_string(recipe.origin_of("data.tokenizer").where), *info.least_classes,
                        head ? head->key : "the last layer's outputs", *info.least_classes));
  }
  if (!info.classes || *info.classes == outputs) return;
  const std::optional<Head> head = head_of(run);
  const bool is_loaded = recipe.model.initial_weights.has_value();
  fail_at(head ? head->origin : recipe.origin_of("model"),
          fmt::format(
              "the network has {} output{}, {} has {} class{}; set {} to {}{}, or correct the data", outputs,
              outputs == 1 ? "" : "s", place_of(recipe, split), *info.classes, *info.classes == 1 ? "" : "es",
              head ? head->key : "the last layer's outputs", *info.classes,
              head && is_loaded ? fmt::format(" and list \"{}\" in model.replace", head->parameters) : ""));
}

std::optional<std::string> unused_outputs(const RunSpec& run, const DataSource& train) {
  const Recipe& recipe = run.recipe();
  const int64_t outputs = class_count(run);
  if (train.classes() >= outputs) return std::nullopt;
  const std::optional<Head> head = head_of(run);
  const Origin origin = head ? head->origin : recipe.origin_of("model");
  return fmt::format(
      "{}: {}: the network has {} outputs, but the highest label of data.train is {}; if there are no "
      "more classes, set {} to {}",
      to_string(origin.where), origin.path, outputs, train.classes() - 1,
      head ? head->key : "the last layer's outputs", train.classes());
}

}  // namespace trainer
