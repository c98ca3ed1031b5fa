// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/run/run_list.h"
#include "core/run/run_settings.h"

namespace trainer {

/// A run and its recipe, as a report shows them.
struct ReportedRun {
  RunOverview overview;
  Settings settings = {};
  std::vector<ChangedSetting> changed = {};  ///< keys that are not their defaults
};

/// One page about a run: its results as large figures, curves of its metrics, their numbers, the decisions of
/// its guards, its confusion matrix and its recipe. It loads nothing from elsewhere and contains no script.
/// Long curves and tables are thinned. Contents that cannot be shown are named. Throws Error (exit 65, 74) if
/// a file cannot be read.
std::string run_report(const ReportedRun& run);

/// One page about several runs: a table of their results and of the keys in which they differ, best first,
/// and their curves over each other. As above otherwise.
std::string runs_report(const std::vector<ReportedRun>& runs);

}  // namespace trainer
