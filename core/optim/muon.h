// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

#include "core/optim/optimizer.h"

namespace trainer {

/// Parameters whose rows belong to tokens, positions or classes: tables of embeddings and positions, and the
/// weight of the linear layer whose output becomes the logits. Weights that are read under another type or
/// shape count too.
std::set<TensorId> tables_and_head(const Program& program);

/// Matrices move by momentum that is made orthogonal, everything else by AdamW.
Registered<Optimizer> muon_optimizer();

}  // namespace trainer
