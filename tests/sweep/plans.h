// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/sweep/sweep_plan.h"
#include "core/sweep/trial_record.h"

namespace trainer::test {

/// A small recipe with this section `sweep`, the inside of a map in flow style.
std::string swept_recipe(const std::string& sweep, const std::string& duration = "90ba");
SweepPlan plan_of(const std::string& sweep, const std::string& duration = "90ba");

/// The problems of a sweep that is refused, a line each.
std::string refusal_of(const std::string& sweep);

/// A trial with these values at the first rungs, and at its end.
TrialRecord trained(int64_t number, const std::vector<double>& rungs, std::optional<double> end = {});

}  // namespace trainer::test
