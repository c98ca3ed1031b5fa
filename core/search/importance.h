// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/search/observation.h"
#include "core/search/space.h"

namespace trainer {

/// How much each dimension decides whether a setting is among the best tenth of the finished ones, with sum
/// 1. A conditional dimension counts by the settings that have it; one that none of them has is 0. If no
/// dimension matters, all that occur are equal. Empty with fewer than two finite values.
std::vector<double> importances(const Space& space, const std::vector<Observation>& seen, bool maximize);

}  // namespace trainer
