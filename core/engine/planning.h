// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/plan.h"

namespace trainer {

/// First part of planning: fills `plan` with the program's tensors, each with its layout, and entries whose
/// nodes have their choice, reorders included.
void choose_layouts(const Program& program, const Planner& planner, Plan& plan);

/// Second part: where what outlives a run is on that rank.
void place_persistent(const Planner& planner, Plan& plan, int64_t rank);

/// Third part: decides which of all other tensors share memory, and where each is on that rank.
void place_storages(const Planner& planner, Plan& plan, int64_t rank);

}  // namespace trainer
