// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/trainer/run_table.h"
#include "core/base/json.h"

namespace trainer {

/// Two runs side by side: the settings in which they differ (`all`: every setting), how they went, and their
/// validation at the same steps.
void print_comparison(const ListedRun& a, const ListedRun& b, bool all);
Json comparison_json(const ListedRun& a, const ListedRun& b, bool all);

/// A run's overview, for `trainer runs --json`.
Json overview_json(const RunOverview& run, const std::string& name);

/// A setting as JSON: a number if it is one, otherwise its text.
Json setting_json(const std::string& text);

}  // namespace trainer
