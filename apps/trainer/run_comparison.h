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

/// What an overview says of a run, for `trainer runs --json`.
Json overview_json(const RunOverview& run, const std::string& name);

/// A setting as JSON: a number where it is one, else its text.
Json setting_json(const std::string& text);

}  // namespace trainer
