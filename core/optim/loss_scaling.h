// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/builder.h"

namespace trainer {

/// Whether autodiff multiplied the loss by a scale.
bool scales_loss(const Program& program);

/// What gradients are to be divided by, (1): the scale, or 1 where there is none.
TensorId scale_of_loss(Program& program);

/// Appends the update of the scale by `found` (1), not 0 where a gradient is not finite, and puts it out.
/// `held` (1), not 0 where the scale has to stay as it is, or kNone.
void append_scale_update(Builder& build, TensorId found, TensorId held);

}  // namespace trainer
