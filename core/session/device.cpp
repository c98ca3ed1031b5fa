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

std::string uncaptured(const std::string& reason) {
  return fmt::format(
      "no CUDA graph could be made of a step: {}; its kernels are launched one by one, which is slower; "
      "runtime.cuda_graph=false leaves the attempt out",
      reason);
}

Tuning earlier_tuning(const Recipe& recipe, const ResumePoint* from) {
  if (!recipe.runtime.autotune) return {};
  if (from != nullptr) return {.fastest = from->state.algorithms};
  return load_tuning(std::filesystem::path(recipe.output_directory()) / kTuningFile);
}

}  // namespace trainer
