// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trainer {

/// Uses of operator new by this program's own code, on any thread, since the program began; allocations of
/// shared libraries such as oneDNN are not counted.
int64_t own_allocations();

}  // namespace trainer
