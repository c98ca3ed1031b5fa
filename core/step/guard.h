// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/graph/names.h"
#include "core/graph/ops/step_guard.h"

namespace trainer {

/// The events that a training step is guarded against.
struct StepGuards {
  bool loss = false;                ///< a step with a non-finite loss changes nothing
  bool counts = false;              ///< nor one with non-finite gradients; skipped steps are counted
  std::optional<SpikeLimit> spike;  ///< only if it counts
  std::vector<int32_t> skip_steps;  ///< pairs (first, last) of steps to skip, and pairs of 0 to be filled
};

/// Whether an operation of the program may turn NaN into 0, or an infinity into a number, so that the loss
/// does not show it.
bool hides_nan(const Program& program);

/// Persistent tensors of guards that count, created on first use: skipped steps, and unlisted ones in a row,
/// i32 (1); the last losses and norms of gradients f32 (2, window) and their number i32 (1); the pairs of
/// steps to skip, i32. They are not weights, and are not averaged.
TensorId guard_skipped(Program& program);
TensorId guard_in_a_row(Program& program);
TensorId guard_window(Program& program, const SpikeLimit& limit);
TensorId guard_accepted(Program& program);
TensorId guard_skip_steps(Program& program, const StepGuards& guards);

/// Their names.
inline constexpr std::array kGuardStates = {state_name::kGuardSkipped, state_name::kGuardInARow,
                                            state_name::kGuardWindow, state_name::kGuardAccepted,
                                            state_name::kGuardSkipSteps};

}  // namespace trainer
