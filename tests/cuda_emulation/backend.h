// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/backend.h"
#include "core/engine/process_group.h"

namespace trainer {

/// The CUDA backend's own kernels, run by the emulation: the same handlers, on memory that it watches.
/// `group`: the place of this rank, for operations that ranks share; it outlives the result.
Backend make_emulated_backend(ProcessGroup* group = nullptr);

}  // namespace trainer
