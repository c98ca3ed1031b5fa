// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/engine/backend.h"
#include "core/engine/tuning.h"
#include "core/recipe/recipe.h"
#include "core/run/resume.h"

namespace trainer {

/// The file in a run's directory that keeps what runtime.autotune found.
constexpr const char* kTuningFile = "algorithms.json";

/// What a device is opened for: planning needs no GPU, only the description of one.
enum class Use { train, plan };

/// The backend that the recipe asks for. Throws Error (exit 69) with the reason where it is not available.
/// With runtime.autotune it goes by `tuning` and adds to it, so that must outlive it. `threads` is for
/// recipes that leave device.threads open.
std::unique_ptr<Backend> open_device(const Recipe& recipe, Tuning& tuning, Use use, int64_t threads = 0);

/// Says to the device what the run computes in. Throws Error (exit 78) at training.precision where it cannot.
void set_precision(const Recipe& recipe, Backend& backend);

/// What an earlier start of the same run found, which stands in the checkpoint that it goes on from too;
/// empty without runtime.autotune.
Tuning earlier_tuning(const Recipe& recipe, const ResumePoint* from = nullptr);

}  // namespace trainer
