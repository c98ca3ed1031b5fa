// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "apps/trainer/arguments.h"
#include "core/base/json.h"
#include "core/recipe/job.h"

namespace trainer {

/// Cores that make this many samples a second, by the rate of one; nothing if either is not known.
std::optional<int64_t> cores_to_load(std::optional<double> samples_per_second, const Arguments& arguments);

/// A sentence for a plan of a GPU whose times are predicted: how many cores its samples need, or which
/// command measures that. "" if the samples are on the GPU, or are not read from files.
std::string loading_text(const Planner& planner, const Job& job, const Arguments& arguments);

/// The same as the key "loading" of a report.
void add_loading(const Planner& planner, const Job& job, const Arguments& arguments, Json& report);

/// A warning if this machine's workers cannot make as many samples; "" if they can, or if it is not known.
std::string loading_warning(const Planner& planner, const Job& job, const Arguments& arguments);

}  // namespace trainer
