// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

#include "core/optim/optimizer.h"

namespace trainer {

/// Parameters with a row for each token, position or output: tables, and the weights of the last layers. A
/// layer is last if its output leads to the loss and to no other layer with a matrix or kernel. If
/// branches meet after their layers, there are several. Weights that are read under another type or shape
/// count too.
std::set<TensorId> tables_and_last_layers(const Program& program);

/// Matrices are updated with orthogonalised momentum, everything else with AdamW.
Registered<Optimizer> muon_optimizer();

}  // namespace trainer
