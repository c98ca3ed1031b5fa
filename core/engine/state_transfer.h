// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/executable.h"
#include "core/engine/process_group.h"

namespace trainer {

// Ranks exchange persistent tensors between steps. Every rank calls the same, in the same order. Rank 0 has
// memory for all of them (Executable::hold_elsewhere).

/// Gives each rank the tensors that it holds, and its parts of others, with rank 0's values.
void broadcast_state(ProcessGroup& group, Executable& executable);

/// Gives rank 0 the tensors that only one other rank holds, and the whole of those in parts.
void gather_state(ProcessGroup& group, Executable& executable);

}  // namespace trainer
