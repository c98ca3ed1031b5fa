// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/engine/predicted_time.h"
#include "core/recipe/step_prediction.h"

namespace trainer {

/// The cost of one step of a rank by a device's rates, with each entry as often as it runs.
struct StepCost {
  Cost total;
  std::vector<std::pair<std::string, Cost>> operations;  ///< by kind, the longest first
  /// Of several ranks: the step with its communication, on the machine of this name in configs/machines/ that
  /// has such devices.
  std::optional<StageTime> with_peers = {};
  std::string machine = {};
  double seconds() const { return with_peers ? with_peers->seconds : total.seconds(); }
};

/// Nothing if the planner has no rates for the device.
std::optional<StepCost> step_cost(const Planner& planner, const Job& job);

/// Text: kernels, bytes, FLOPs and predicted time of a step, then the products that waste tensor cores, with
/// the reason. Says so if a described device has no rates; "" for other devices without them.
std::string time_text(const Planner& planner, const Job& job);

/// The same as keys of a report: "predicted" and "tensor_cores".
void add_time(const Planner& planner, const Job& job, Json& report);

}  // namespace trainer
