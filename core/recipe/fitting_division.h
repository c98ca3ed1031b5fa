// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/recipe/job.h"

namespace trainer {

/// A way to divide a network among ranks.
struct FittingDivision {
  std::string keys;         ///< "parallelism.data=2 parallelism.shard_parameters=true"; "": none was found
  int64_t ranks = 0;        ///< which it needs
  bool is_complete = true;  ///< false: the time was up before all had been tried
};

/// Searches by planning for a division of the job's network among the fewest ranks, 64 at most, whose plans
/// all fit. The keys are those that change in the recipe, with a smaller micro-batch if that is needed. A
/// rank with a device of its own has `available` bytes; ranks on CPUs share their host's memory.
FittingDivision fitting_division(const Planner& planner, const Job& job, int64_t available,
                                 double most_seconds = 60);

}  // namespace trainer
