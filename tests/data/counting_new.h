// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trainer {

/// Allocations by operator new on the calling thread since it began.
int64_t allocations_here();

}  // namespace trainer
