// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "core/engine/device_rates.h"
#include "core/recipe/job.h"

namespace trainer {

/// The entries that a step of a planned job runs, and how often. A step of prediction is a batch.
std::vector<std::pair<const PlannedEntry*, double>> entries_of_step(const Job& job);

/// Floating-point operations of a step on one rank, those that run again to save memory included.
double step_flops(const Job& job);
/// The same of all ranks; of a pipeline without the update.
double step_flops_of_all(const Job& job);

/// Seconds that the arithmetic of a step on one rank takes at the device's full rates.
double arithmetic_seconds(const Job& job, const DeviceRates& rates);

}  // namespace trainer
