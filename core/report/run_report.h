// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "core/run/run_list.h"

namespace trainer {

/// One page about a run: curves of its metrics, their numbers, its results, the decisions of its guards, its
/// confusion matrix and its recipe. It loads nothing from elsewhere and contains no script. Contents that
/// cannot be shown are named. Throws Error (exit 74) if a file cannot be read.
std::string run_report(const RunOverview& run);

}  // namespace trainer
