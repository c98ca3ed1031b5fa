// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "core/sweep/sweep_state.h"

namespace trainer {

/// A sweep for a terminal of `width` columns: how far it is, the values of its trials as a chart, and the
/// best of them.
std::string sweep_screen(const SweepPlan& plan, const std::filesystem::path& directory,
                         const TrialRecords& records, size_t width);

/// Whether nothing in it will change: all trials are decided.
bool is_decided(const SweepPlan& plan, const TrialRecords& records);

}  // namespace trainer
