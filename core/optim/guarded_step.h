// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/builder.h"
#include "core/graph/ops/step_guard.h"

namespace trainer {

/// What a guard says of a step, each (1): whether it changes nothing, and whether that has no cure in a
/// smaller scale of the loss (kNone where guards do not count).
struct GuardedStep {
  TensorId skip = kNone, held = kNone;
};

/// What is known of all gradients, each (1): not 0 where one is not finite, and their joint 2-norm, which
/// only a guard of spikes needs.
struct Watched {
  TensorId found = kNone, norm = kNone;
};

/// Appends the guard of a step to the entry that updates. Only guards that count look at gradients. These put
/// out "guard_reason" (a SkipReason), "guard_skipped" (steps so far) and "guard_in_a_row".
GuardedStep append_guard(Builder& build, const StepGuards& guards, const Watched& watched, bool scaled);

}  // namespace trainer
