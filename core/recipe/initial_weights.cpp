// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/initial_weights.h"

#include <fmt/core.h>

#include "core/run/trained_files.h"
#include "core/run/weights.h"

namespace trainer {

void load_initial_weights(const Recipe& recipe, Executable& executable, Log& log) {
  if (!recipe.model.initial_weights) return;
  const TrainedFiles files = find_trained(*recipe.model.initial_weights);
  for (const std::string& text : files.damaged) log.warn(fmt::format("skipped: {}", text));
  load_weights(executable, files.model, {recipe.model.replace, recipe.origin_of("model.replace")});
}

}  // namespace trainer
