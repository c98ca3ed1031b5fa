// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/executable.h"
#include "core/engine/process_group.h"

namespace trainer {

/// Between steps: gives all ranks that hold a persistent tensor, or the same part of it, the value that the
/// first of them has (first_holder). Every rank calls it.
void broadcast_state(ProcessGroup& group, Executable& executable);

}  // namespace trainer
