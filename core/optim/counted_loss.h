// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/builder.h"

namespace trainer {

/// What undoes, in an update, that gradients are those of a sum over counted positions, times the loss scale.
/// Each (1), or kNone where the loss does not count.
struct CountedLoss {
  TensorId factor = kNone;   ///< gradients are to be multiplied with
  TensorId divisor = kNone;  ///< 1 / factor

  bool counts() const { return factor != kNone; }
};

/// In the entry that updates: has a loss that counts put out as the mean over all counted positions of the
/// step, of every micro-batch and rank. Does nothing for other losses.
CountedLoss append_mean_loss(Builder& build);

}  // namespace trainer
