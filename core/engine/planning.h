// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/plan.h"

namespace trainer {

/// First part of planning: fills `plan` with the program's tensors, each with its layout, and its entries.
/// Their nodes have their choice, reorders included.
void choose_layouts(const Program& program, const Planner& planner, Plan& plan);

/// Second part: places the tensors that outlive a run on that rank, of this stage of a pipeline.
void place_persistent(const Planner& planner, Plan& plan, int64_t rank, int64_t stage);

/// Third part: decides which of all other tensors share memory, and their offsets on that rank.
void place_storages(const Planner& planner, Plan& plan, int64_t rank);

}  // namespace trainer
