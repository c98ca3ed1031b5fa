// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/graph/builder.h"
#include "core/graph/names.h"
#include "core/graph/ops/step_guard.h"

namespace trainer {

/// What a training step is guarded against.
struct StepGuards {
  bool loss = false;  ///< a step whose loss is not finite changes nothing
  bool counts =
      false;  ///< nor one whose gradients are not; the run goes on, and its skipped steps are counted
  std::optional<SpikeLimit> spike;  ///< only where it counts
  std::vector<int32_t> skip_steps;  ///< pairs (first, last) of steps to skip, and pairs of 0 to be filled
};

/// Persistent tensors of guards that count, made on first use: skipped steps, and those of them in a row that
/// were not told, i32 (1); the last losses and norms of gradients f32 (2, window) and how many there have
/// been i32 (1); the pairs of steps to skip, i32. They are no weights, and are not averaged.
TensorId guard_skipped(Program& program);
TensorId guard_in_a_row(Program& program);
TensorId guard_window(Program& program, const SpikeLimit& limit);
TensorId guard_accepted(Program& program);
TensorId guard_skip_steps(Program& program, const StepGuards& guards);

/// Their names.
inline constexpr std::array kGuardStates = {state_name::kGuardSkipped, state_name::kGuardInARow,
                                            state_name::kGuardWindow, state_name::kGuardAccepted,
                                            state_name::kGuardSkipSteps};

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

/// Appends the guard of a step to the entry that updates. Only guards that count look at gradients, and put
/// out the guard's fields of StepReport.
GuardedStep append_guard(Builder& build, const StepGuards& guards, const Watched& watched, bool scaled);

}  // namespace trainer
