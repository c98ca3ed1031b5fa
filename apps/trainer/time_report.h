// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/engine/predicted_time.h"
#include "core/recipe/job.h"

namespace trainer {

/// What one step of a rank costs, by a device's rates: every entry as often as it runs.
struct StepCost {
  Cost total;
  std::vector<std::pair<std::string, Cost>> operations;  ///< by kind, the longest first
};

/// Nothing if the planner does not know its device's rates.
std::optional<StepCost> step_cost(const Planner& planner, const Job& job);

/// Kernels, bytes, FLOPs and predicted time of a step, then which products waste tensor cores and by what;
/// for people. Says so where a described device has no rates; "" for other devices without them.
std::string time_text(const Planner& planner, const Job& job);

/// The same as keys of a report: "predicted" and "tensor_cores".
void add_time(const Planner& planner, const Job& job, Json& report);

}  // namespace trainer
