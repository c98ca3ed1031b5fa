// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <typeindex>

#include "core/engine/backend.h"

namespace trainer {

/// What the other backends are compared with: one naive loop per operation, on one thread, every tensor
/// row-major. Floating point tensors are computed and stored as double, i32 and u8 as they are. With `rounds`
/// what an operation writes to a tensor of a low type is rounded to it; without, gradients through casts are
/// exact.
Backend make_reference_backend(bool rounds = false);

/// All operations that it has a loop for, which are all that there are.
std::set<std::type_index> reference_operations();

}  // namespace trainer
