// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainer {

/// The steps at which asynchronous successive halving decides: first * factor^r below `end`; first >= 1,
/// factor >= 2.
std::vector<int64_t> rungs(int64_t first, int64_t factor, int64_t end);

/// Whether a setting goes on beyond a rung. `values` are those at the rung, of the settings numbered up to
/// its own, which is the last. It must be among the best 1 / factor of them, or equal to one; at least one
/// goes on. NaN stops, and does not count among the others.
bool goes_on(std::span<const double> values, int64_t factor, bool maximize);

}  // namespace trainer
