// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/planner.h"

namespace trainer {

/// For the choice of an OptimizerStep: each parameter's gradient and moments in the parameter's layout or,
/// if that is still open, in its gradient's.
void lay_out_step(const OpContext& context, const OpenLayouts& inputs, Choice& choice);

}  // namespace trainer
