// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "core/engine/collectives.h"
#include "core/engine/device.h"

namespace trainer {

// What the kernels of collectives have in common on all devices.

/// Bytes of each output as it is stored.
std::vector<int64_t> output_bytes(const OpContext& context, const Choice& choice);

/// Of a node that starts a collective: starts it on the memory that the slots point to by then. With
/// `skips` (ProcessGroup::skips_collectives) it does so only if no rank can compute without the others'
/// numbers, as without their parts of a parameter, or of operations that they share.
using StartCollective = std::function<void(Collectives& all, bool skips)>;
StartCollective start_of(const OpContext& context, const Choice& choice, const Slots& slots);

}  // namespace trainer
