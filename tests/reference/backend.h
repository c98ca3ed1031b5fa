// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <typeindex>

#include "core/engine/backend.h"

namespace trainer {

/// The reference for the other backends: one naive loop per operation, on one thread, every tensor row-major.
/// Floating point tensors are computed and stored as double, i32 and u8 unchanged. With `rounds` results in a
/// tensor of a low type are rounded to it; without, gradients through casts are exact.
Backend make_reference_backend(bool rounds = false);

/// All operations: it has a loop for each.
std::set<std::type_index> reference_operations();

}  // namespace trainer
