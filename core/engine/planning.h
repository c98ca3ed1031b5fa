// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/plan.h"

namespace trainer {

/// First half of planning: fills `plan` with the program's tensors, each with its layout, and entries whose
/// nodes have their choice, reorders included.
void choose_layouts(const Program& program, const Planner& planner, Plan& plan);

/// Second half: decides which tensors share memory, and where each lies on that rank.
void place_tensors(const Planner& planner, Plan& plan, int64_t rank);

}  // namespace trainer
