// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/engine/planner.h"

namespace trainer::cpu {

/// Largest of a row; NaN if the row holds one, so that it reaches the loss.
float row_max(const float* row, int64_t classes);
/// Of exp(x - largest) over a row.
float exp_sum(const float* row, float largest, int64_t classes);

/// Mixed precision gives losses f32; other types are refused.
std::optional<std::string> why_not_low(const OpContext& context);

}  // namespace trainer::cpu
