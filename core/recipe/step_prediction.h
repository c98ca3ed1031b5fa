// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/engine/device_rates.h"
#include "core/engine/machine_description.h"
#include "core/engine/step_timeline.h"
#include "core/recipe/job.h"
#include "core/train/measured_nodes.h"

namespace trainer {

/// The seconds of an entry's nodes, in order.
using NodeTimer = std::function<std::vector<double>(const Plan& plan, const PlannedEntry& entry)>;

/// By a device's rates.
NodeTimer timed_by_rates(const DeviceRates& rates);
/// As a run has measured them.
NodeTimer timed_by_run(std::shared_ptr<const MeasuredNodes> run);
/// Each node takes `factor` times as long.
NodeTimer slowed(NodeTimer timer, double factor);

/// A step on a machine.
struct StepPrediction {
  StageTime slowest;   ///< of the ranks that take longest; one after another, so `seconds` is the step's
  int64_t memory = 0;  ///< bytes of the rank that holds most
};

/// Plans the other stages of a pipeline too. `request` is the job's. Throws Error as make_job does.
StepPrediction predict_step(const Job& job, const Planner& planner, const JobRequest& request,
                            const MachineDescription& machine, const NodeTimer& timer);

}  // namespace trainer
