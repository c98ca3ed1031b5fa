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

/// Appends the guard of a step to the entry that updates. `found` (1) is not 0 where a gradient is not
/// finite; only guards that count look at it. These put out "guard_reason" (a SkipReason), "guard_skipped"
/// (steps so far) and "guard_in_a_row".
GuardedStep append_guard(Builder& build, const StepGuards& guards, TensorId found, bool scaled);

}  // namespace trainer
