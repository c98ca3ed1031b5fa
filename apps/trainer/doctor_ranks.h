// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/ranks/identity.h"
#include "core/ranks/placement.h"

namespace trainer {

/// The placements of all ranks, exchanged by MPI. `gpus`: of this host. Throws Error (exit 69) if MPI does
/// not join the ranks.
std::vector<RankPlacement> placements_of_ranks(const RankIdentity& identity, const std::vector<Json>& gpus);

/// A heading and a line for each rank.
std::vector<std::pair<std::string, std::string>> placement_rows(const std::vector<RankPlacement>& ranks);

}  // namespace trainer
