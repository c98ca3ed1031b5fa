// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/communicator.h"
#include "core/engine/executable.h"

namespace trainer {

// Ranks exchange what persists, between steps. Every rank calls the same, in the same order. Rank 0 has
// memory for all of it (Executable::hold_elsewhere).

/// Gives each rank what it holds, as rank 0 has it.
void share_state(Communicator& ranks, Executable& executable);

/// Gives rank 0 what one other rank alone holds.
void gather_state(Communicator& ranks, Executable& executable);

}  // namespace trainer
