// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/search/space.h"

namespace trainer {

/// The most settings that a grid may have.
constexpr int64_t kMaxGrid = 1'000'000;

/// How many settings grid_settings() returns; nothing if there are more than kMaxGrid.
std::optional<int64_t> grid_size(const Space& space, const std::vector<int64_t>& points);

/// All combinations of choices and `points` values (1 to kMaxGrid) of each range, equally spaced with both
/// ends; one is the middle, integers are rounded and distinct. The last dimension varies fastest. Throws
/// std::length_error above kMaxGrid.
std::vector<Setting> grid_settings(const Space& space, const std::vector<int64_t>& points);

}  // namespace trainer
