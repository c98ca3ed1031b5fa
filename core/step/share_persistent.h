// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/program.h"

namespace trainer {

/// Of a pipeline's programs, by stage: notes in `own`, one of these, which stages hold each persistent tensor
/// that not all do, and adds those of the others that outlive a step. So each rank knows what checkpoints
/// hold, and where it is. What does not outlive a step is each stage's own.
void share_persistent(Program& own, const std::vector<Program>& stages);

}  // namespace trainer
