// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/recipe/job.h"

namespace trainer {

/// What each stage of a pipeline computes, holds and sends, and how long ranks wait for each other, for
/// people. Plans all stages. "" if there is one. A backward part's time is predicted, or taken to follow its
/// FLOPs.
std::string pipeline_text(const Planner& planner, const Job& job,
                          const std::vector<std::string>& disabled_passes);

/// The same as the key "pipeline" of a report.
void add_pipeline(const Planner& planner, const Job& job, const std::vector<std::string>& disabled_passes,
                  Json& report);

}  // namespace trainer
