// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/multiversion.h"

namespace trainer::cpu {

/// In double, on one thread, in one order.
TRAINER_MULTIVERSION double square_sum(const float* x, int64_t count);

}  // namespace trainer::cpu
