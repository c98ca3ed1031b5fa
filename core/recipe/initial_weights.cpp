// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/initial_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/printable.h"
#include "core/config/patterns.h"
#include "core/run/trained_files.h"
#include "core/run/weights.h"

namespace trainer {
namespace {

/// "3 tensors: a, b, c"; of many only the first.
std::string listed_tensors(const std::vector<std::string>& names) {
  constexpr size_t kMostShown = 6;
  std::vector<std::string> shown(names.begin(),
                                 names.begin() + static_cast<int64_t>(std::min(names.size(), kMostShown)));
  if (names.size() > shown.size()) shown.push_back(fmt::format("{} more", names.size() - shown.size()));
  return fmt::format("{} tensor{}: {}", names.size(), names.size() == 1 ? "" : "s", fmt::join(shown, ", "));
}

void add_loaded(const Recipe& recipe, Executable& executable, OtherImages* others,
                std::vector<std::string>& lines) {
  const TrainedFiles files = find_trained(*recipe.model.initial_weights);
  for (const std::string& text : files.damaged) lines.push_back("warning: skipped: " + text);
  const LoadedWeights found = load_weights(executable, files.model, replaced_by(recipe), others);
  const size_t loaded = found.loaded.size();
  lines.push_back(fmt::format("loaded {} of {} tensors from {}", loaded, loaded + found.replaced.size(),
                              one_line(files.model.string())));
  if (!found.prefixes.empty()) lines.push_back(prefix_remark(found));
  if (!found.replaced.empty()) {
    lines.push_back(fmt::format("re-initialised ({}) {}",
                                recipe.model.replace.empty() ? "model.num_classes" : "model.replace",
                                listed_tensors(found.replaced)));
  }
  if (!found.left.empty()) lines.push_back("left in the file " + listed_tensors(found.left));
}

void add_frozen(const Recipe& recipe, const Executable& executable, std::vector<std::string>& lines) {
  std::vector<std::string> frozen;
  int64_t parameters = 0, trained = 0;
  for (const Tensor& tensor : executable.plan().tensors) {
    if (is_weight(tensor) && matches_any(recipe.model.freeze, tensor.name)) frozen.push_back(tensor.name);
    if (tensor.role != Role::parameter) continue;
    parameters += numel(whole_shape(tensor));
    if (!tensor.frozen) trained += numel(whole_shape(tensor));
  }
  if (!frozen.empty()) lines.push_back("frozen (model.freeze) " + listed_tensors(frozen));
  lines.push_back(fmt::format("{} of {} parameters train", trained, parameters));
}

}  // namespace

Replaced replaced_by(const Recipe& recipe) {
  Replaced replaced{.patterns = recipe.model.replace,
                    .origin = recipe.origin_of("model.replace"),
                    .head = {},
                    .tied = recipe.model.tied_weights()};
  if (recipe.model.num_classes) replaced.head = recipe.model.parameters_of(recipe.model.head().value());
  return replaced;
}

std::vector<std::string> load_initial_weights(const Recipe& recipe, Executable& executable,
                                              OtherImages* others) {
  std::vector<std::string> lines;
  if (recipe.model.initial_weights) add_loaded(recipe, executable, others, lines);
  if (recipe.model.initial_weights || !recipe.model.freeze.empty()) add_frozen(recipe, executable, lines);
  return lines;
}

}  // namespace trainer
