// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/trainer/run_table.h"
#include "core/base/json.h"

namespace trainer {

/// Runs side by side: the settings in which they differ (`all`: every setting), how they went, and their
/// validation at the same epochs. On a terminal the columns share its width.
void print_comparison(const std::vector<ListedRun>& runs, bool all);
Json comparison_json(const std::vector<ListedRun>& runs, bool all);

/// A run's overview, for `trainer runs --json`.
Json overview_json(const RunOverview& run, const std::string& name);

/// A setting as JSON: a number if it is one, otherwise its text.
Json setting_json(const std::string& text);

}  // namespace trainer
