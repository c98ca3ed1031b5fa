// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/program.h"

namespace trainer {

/// Largest sum of bytes that an entry's activations and gradients hold at once, as far as the program
/// determines it: views and outputs written over an input that dies count once; layouts and workspaces belong
/// to the backend and do not count.
int64_t peak_live_bytes(const Program& program, const Entry& entry);

}  // namespace trainer
