// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/engine/executable.h"

namespace trainer {

/// Repeats a training step's forward and backward part, one operation at a time, up to the first infinite or
/// NaN value. Describes its place: an input, a parameter, an operation of the recipe or its gradient; nothing
/// if there is none this time. `bind` binds the step's next micro-batch. It changes nothing persistent except
/// sums within a step. Slow: every tensor is copied to the host. If parameters are in parts, all ranks must
/// call it.
std::optional<std::string> find_non_finite(Executable& executable, int64_t micro_batches,
                                           const std::function<void()>& bind);

}  // namespace trainer
