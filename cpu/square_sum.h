// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trainer::cpu {

/// In double, on one thread, in one order.
double square_sum(const float* x, int64_t count);

}  // namespace trainer::cpu
