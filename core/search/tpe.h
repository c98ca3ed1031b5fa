// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/search/observation.h"
#include "core/search/space.h"

namespace trainer {

/// The next setting, by a multivariate tree-structured Parzen estimator: random until ten have a result. A
/// pure function of its arguments. `number` is the setting's own: each number has its own draws. The
/// settings of `seen` are in the space.
Setting tpe_setting(const Space& space, const std::vector<Observation>& seen, bool maximize, uint64_t seed,
                    int64_t number);

}  // namespace trainer
