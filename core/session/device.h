// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "core/engine/backend.h"
#include "core/engine/tuning.h"
#include "core/recipe/recipe.h"
#include "core/run/resume.h"

namespace trainer {

/// The file in a run's directory that keeps what runtime.autotune found.
constexpr const char* kTuningFile = "algorithms.json";

/// Opens the backend that a recipe asks for. With runtime.autotune it follows `tuning` and adds to it, so
/// that must outlive it. `threads` is for recipes that leave device.threads open; 0: not said.
using OpenDevice = std::function<Backend(const Recipe& recipe, Tuning& tuning, int64_t threads)>;

/// Tells the planner the run's precision. Throws Error (exit 78) at training.precision where it cannot.
void set_precision(const Recipe& recipe, Planner& planner);

/// What to warn of where the device has failed to capture a step, for the reason given.
std::string uncaptured(const std::string& reason);

/// What an earlier start of the same run found, which stands in the checkpoint that it goes on from too;
/// empty without runtime.autotune.
Tuning earlier_tuning(const Recipe& recipe, const ResumePoint* from = nullptr);

}  // namespace trainer
