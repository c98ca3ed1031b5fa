// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "core/sweep/sweep_state.h"

namespace trainer {

/// One page about a sweep: its best setting beside the recipe as written, the metric over each parameter,
/// curves of the best trials and a table of all. It loads nothing from elsewhere and contains no script.
/// `directory`: of the sweep. Throws Error (exit 65, 74) if a file cannot be read.
std::string sweep_report(const SweepPlan& plan, const std::filesystem::path& directory,
                         const TrialRecords& records);

}  // namespace trainer
