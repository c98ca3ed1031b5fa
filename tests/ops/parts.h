// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "core/engine/backend.h"
#include "core/engine/process_group.h"

namespace trainer {

/// A backend for a rank, or with null for a process that is alone.
using BackendOfRank = std::function<Backend(ProcessGroup*)>;

/// Compares what ranks compute of operations that they share with what one process computes of the wholes:
/// odd sizes, padding, NaN and infinities. Outputs are exactly equal where each element is computed alike.
void check_parts(const BackendOfRank& make);
/// A part of it: losses and metrics of logits whose classes ranks share.
void check_shared_classes(const BackendOfRank& make);

}  // namespace trainer
