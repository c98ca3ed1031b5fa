// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/recipe/assemble.h"

namespace trainer {

/// A pipeline's program before each rank leaves out the other stages: the same for all ranks.
std::shared_ptr<const Program> program_of_all_stages(const RunSpec& run, const ProgramRequest& request,
                                                     const PassObserver& observe = {});

/// The program of the run's rank, made of that. It knows what other stages have in checkpoints.
Program program_of_stage(const RunSpec& run, const ProgramRequest& request, const Program& all,
                         const PassObserver& observe = {});

}  // namespace trainer
