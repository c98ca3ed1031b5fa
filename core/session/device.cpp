// SPDX-License-Identifier: Apache-2.0
#include "core/session/device.h"

#include <fmt/format.h>

#include "core/run/tuning_file.h"

namespace trainer {

void set_precision(const Recipe& recipe, Planner& planner) {
  const auto reason = planner.set_precision(recipe.training.parsed_precision());
  if (!reason) return;
  fail_at(recipe.origin_of("training.precision"),
          fmt::format("{} cannot be computed here: {}", recipe.training.precision, *reason));
}

Tuning earlier_tuning(const Recipe& recipe, const ResumePoint* from) {
  if (!recipe.runtime.autotune) return {};
  if (from != nullptr) return {.fastest = from->state.algorithms};
  return load_tuning(std::filesystem::path(recipe.output_directory()) / kTuningFile);
}

}  // namespace trainer
